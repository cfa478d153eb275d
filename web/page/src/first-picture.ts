// The page as it is before anything was touched, as text. Run once, by the build, in Node.
import { render } from 'svelte/server';
import { load } from 'locant';
import App from './App.svelte';
import { PageState } from './shell/state.svelte';
import { views } from './views';

const library = await load({ kernel: 'deterministic' });
const { body } = await render(App, { props: { library, page: new PageState(views, '') } });

/** Without the comments by which Svelte would find its way: the page is drawn anew, not taken over. */
export const firstPicture = body.replace(/<!--.*?-->/gs, '');
