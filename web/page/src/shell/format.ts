// How numbers are written. Every number on the page passes through here, so that the page and the tests print alike.

const minus = '−';

/** Fixed decimals with a true minus sign; NaN and infinity by name. */
export function fixed(value: number, decimals = 2): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : `${minus}∞`;
  const text = value.toFixed(decimals);
  return text.startsWith('-') ? (Number(text) === 0 ? text.slice(1) : minus + text.slice(1)) : text;
}

/** A whole number that is a difference: +2, 0, −3. */
export function signed(value: number): string {
  return value > 0 ? `+${value}` : fixed(value, 0);
}

/** Residuals and tolerances: two significant digits, as in 1.2e−7; zero is exact and says so by being 0. */
export function scientific(value: number): string {
  if (value === 0) return '0';
  if (!Number.isFinite(value)) return fixed(value);
  const size = Math.abs(value);
  if (size >= 0.01 && size < 1000) return value.toPrecision(2).replace('-', minus);
  const [digits, exponent] = value.toExponential(1).split('e');
  return `${digits.replace('.0', '').replace('-', minus)}e${exponent.replace('+', '').replace('-', minus)}`;
}

/** A weight for a small cell: .21 and 1.0 rather than 0.21 and 1.00. */
export function weight(value: number): string {
  const text = fixed(value, 2);
  return text.startsWith('0.') ? text.slice(1) : text.startsWith('1') ? '1.0' : text;
}

/** Comma-separated values, quoted where needed. */
export function csv(columns: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const cell = (value: string | number) => (typeof value === 'string' && /[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : String(value));
  return [columns, ...rows].map((row) => row.map(cell).join(',')).join('\n') + '\n';
}
