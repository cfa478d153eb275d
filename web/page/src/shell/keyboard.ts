// The keys that work alike in every view. Keys with Ctrl, Alt or Meta are the browser's; keys typed into a field are the field's.
export type Command = 'previous' | 'next' | 'step' | 'reset' | 'wrong' | 'copy' | 'help';

const commands: Readonly<Record<string, Command>> = {
  '[': 'previous',
  ']': 'next',
  ' ': 'step',
  r: 'reset',
  w: 'wrong',
  c: 'copy',
  '?': 'help',
};

/** What a key press means, or nothing where it belongs to what has the focus. */
export function commandOf(event: KeyboardEvent): Command | undefined {
  if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return undefined;
  const target = event.target as Element | null;
  if (target?.closest('input:not([type=range]):not([type=radio]):not([type=checkbox]), textarea, select, dialog, [contenteditable]')) return undefined;
  // Space presses what has the focus.
  if (event.key === ' ' && target?.closest('button, a, input, summary, [data-own-space]')) return undefined;
  return commands[event.key.length === 1 ? event.key.toLowerCase() : event.key];
}
