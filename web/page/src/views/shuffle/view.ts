import type { View } from '../../shell/view';
import { text } from '../../text/en';
import { nextOrder, shuffleModel, type ShuffleResult, type ShuffleState } from './model';
import Controls from './Controls.svelte';
import Figure from './Figure.svelte';

const turn = (by: number) => (state: ShuffleState, { words }: ShuffleResult) => ({
  query: (state.query + by + words.length) % words.length,
});

export const shuffle: View<ShuffleState, ShuffleResult> = {
  model: shuffleModel,
  text: text.views.shuffle,
  keys: { previous: turn(-1), next: turn(1), step: (state) => ({ order: nextOrder(state.order) }) },
  Controls,
  Figure,
};
