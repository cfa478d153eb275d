// The pure halves of the views, in the order of the rail: what runs in Node.
import type { Model } from './shell/view';
import { shuffleModel } from './views/shuffle/model';
import { rotationModel } from './views/rotation/model';
import { cachedGenerationModel } from './views/cached-generation/model';

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export const models: readonly Model<any, any>[] = [shuffleModel, rotationModel, cachedGenerationModel];
export { readAddress, writeAddress, initialState } from './shell/address';
export { fixed, scientific, weight, csv } from './shell/format';
export { within } from './shell/view';
