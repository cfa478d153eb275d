// Starts the page: reads the address, loads the library, draws. Where the library cannot run, the first picture stays
// and a plain sentence says why.
import { mount } from 'svelte';
import { load } from 'locant/external';
import moduleAddress from 'locant/deterministic.wasm?url';
import './styles/tokens.css';
import './styles/base.css';
import App from './App.svelte';
import { PageState } from './shell/state.svelte';
import { theme } from './shell/theme.svelte';
import { views } from './views';
import { text } from './text/en';

const target = document.getElementById('page')!;
theme.start();

try {
  // The deterministic kernel gives the same digits in every browser, so a link shows what its sender saw; and it is the
  // only one that needs to be fetched.
  const library = await load({ wasm: new URL(moduleAddress, import.meta.url) });
  const page = new PageState(views, location.hash);
  target.replaceChildren();
  mount(App, { target, props: { library, page } });
  document.documentElement.dataset.ready = '';
} catch (error) {
  const sentence = document.createElement('p');
  sentence.className = 'plain-sentence';
  sentence.setAttribute('role', 'alert');
  sentence.textContent = `${text.shell.noLibrary} ${error instanceof Error ? error.message : String(error)}`;
  // The first picture stays to be read; its controls would do nothing.
  for (const control of target.querySelectorAll<HTMLButtonElement>('button, input, select')) control.disabled = true;
  target.prepend(sentence);
  document.documentElement.dataset.failed = '';
}

if (import.meta.env.PROD && 'serviceWorker' in navigator) {
  navigator.serviceWorker.register(new URL('./offline.js', document.baseURI)).catch(() => { /* works without, online */ });
}
