// The views, in the order of the rail. A further view is a folder and one line here.
import type { AnyView } from './shell/view';
import { shuffle } from './views/shuffle/view';
import { rotation } from './views/rotation/view';
import { cachedGeneration } from './views/cached-generation/view';

export const views: readonly AnyView[] = [shuffle, rotation, cachedGeneration];
