import type { View } from '../../shell/view';
import { text } from '../../text/en';
import { cachedGenerationModel, type CachedGenerationResult, type CachedGenerationState } from './model';
import Controls from './Controls.svelte';
import Figure from './Figure.svelte';

const move = (by: number) => (state: CachedGenerationState, { steps }: CachedGenerationResult) => {
  const step = state.step + by;
  return step >= 0 && step < steps.length ? { step } : undefined;
};

export const cachedGeneration: View<CachedGenerationState, CachedGenerationResult> = {
  model: cachedGenerationModel,
  text: text.views.cachedGeneration,
  keys: { previous: move(-1), next: move(1), step: (state, { steps }) => ({ step: (state.step + 1) % steps.length }) },
  Controls,
  Figure,
};
