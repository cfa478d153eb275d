import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

export default {
  preprocess: vitePreprocess(),
  // Styles go to files of their own: the page is served without 'unsafe-inline'.
  compilerOptions: { css: 'external', runes: true },
};
