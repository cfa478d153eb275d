import type { View } from '../../shell/view';
import { text } from '../../text/en';
import { lastPosition, pairs, rotationModel, type RotationResult, type RotationState } from './model';
import Controls from './Controls.svelte';
import Figure from './Figure.svelte';

/** Both positions moved together, or nothing where one would leave the line. */
function together(by: number) {
  return ({ query, key }: RotationState) => {
    const inside = (position: number) => position >= 0 && position <= lastPosition;
    return inside(query + by) && inside(key + by) ? { query: query + by, key: key + by } : undefined;
  };
}

export const rotation: View<RotationState, RotationResult> = {
  model: rotationModel,
  text: text.views.rotation,
  keys: { previous: together(-1), next: together(1), step: (state) => ({ pair: (state.pair + 1) % pairs }) },
  Controls,
  Figure,
};
