import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { offline } from './build/offline.mjs';

export default defineConfig({
  // Relative addresses: the page is served under any path.
  base: './',
  plugins: [svelte(), offline()],
  build: {
    target: 'es2022',
    // A style or script inlined as data would need a looser policy than the page is served with.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
