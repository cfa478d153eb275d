// Prints the audit tests of small decoders with random weights: what a decoder must do with positions, measured.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildPackage } from './build.mjs';
import { main, readOptions, Refusal, root } from './lib/command.mjs';
import { decoders, faults, shape } from './lib/small-decoders.mjs';

const help = `
Usage: npm run audit-tests [-- OPTIONS]

Makes small decoders with seeded random weights, one for each way that position can enter, and prints for each the
positional methods, and per test the residual, its tolerance and the verdict; then the residuals of all in one table.
(Where location counts, move-content must differ: its residual then says how much.)
  --fault=NAME    one of the classic faults, made on purpose: its test must then fail
                  ${faults.join(', ')}, or all
  --method=WORD   only decoders whose name holds this word
  --seed=NUMBER   of weights and contents (default 1)
`;

const marks = { pass: '', fail: ' FAIL', 'not-applicable': ' n/a' };

/** Residuals of all decoders at a glance: a row each, a column for each test. */
function summary(reports) {
  const tests = reports[0].report.lines.map(({ test }) => test);
  const cell = ({ residual, verdict }) => (verdict === 'not-applicable' ? '-' : `${residual === 0 ? '0' : residual.toExponential(1)}${marks[verdict]}`);
  const rows = [['residual of', ...tests], ...reports.map(({ name, report }) => [name, ...report.lines.map(cell)])];
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows.map((row) => row.map((text, column) => text.padEnd(widths[column])).join('  ').trimEnd()).join('\n');
}

main(async () => {
  const { values } = readOptions('audit-tests', help,
    { fault: { type: 'string' }, method: { type: 'string', default: '' }, seed: { type: 'string', default: '1' } });
  if (values.fault && values.fault !== 'all' && !faults.includes(values.fault)) {
    throw new Refusal(`audit-tests: there is no fault "${values.fault}"; there are ${faults.join(', ')}, all.`);
  }
  const seed = Number(values.seed);
  if (!Number.isInteger(seed) || seed < 0) throw new Refusal(`audit-tests: --seed is ${values.seed}; it can be a whole number, 0 or more.`);
  await buildPackage();
  const { load } = await import(pathToFileURL(join(root, 'web/package/dist/index.js')));
  const locant = await load();
  const wanted = values.fault === 'all' ? faults : [values.fault ?? 'none'];
  const reports = [];
  let failed = 0;
  for (const [name, inputPosition, layers] of decoders(locant)) {
    if (!name.includes(values.method)) continue;
    const decoder = locant.decoder({ ...shape, inputPosition, layers }, { seed });
    for (const fault of wanted) {
      const report = decoder.auditTests({ seed, fault });
      console.log(`\n# ${name}\n${report.text}`);
      reports.push({ name: fault === 'none' ? name : `${name}, ${fault}`, report });
      if (!report.passed) failed += 1;
    }
    decoder.dispose();
  }
  if (reports.length === 0) throw new Refusal(`audit-tests: no decoder's name holds "${values.method}".`);
  console.log(`\n${summary(reports)}`);
  if (values.fault === undefined && failed > 0) return 1;
  return 0;
});
