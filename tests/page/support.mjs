// What the page's tests share: the models of the views in Node, the built page on a server with the strict policy, and
// Debian's Chromium.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { runnerImport } from 'vite';
import { headers, serve } from '../../build-scripts/lib/serve.mjs';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const dist = join(root, 'web/page/dist');

/** The page's own code that needs no document: models of the views, address, formats. */
export async function pageCode() {
  const { module } = await runnerImport(join(root, 'web/page/src/models.ts'), {
    root: join(root, 'web/page'), configFile: false, logLevel: 'error',
  });
  return module;
}

const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

export async function openBrowser() {
  const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
  if (!executablePath) throw new Error('tests/page: no Chromium in /usr/bin; on Debian: apt-get install chromium');
  return chromium.launch({ executablePath, args: flags });
}

/** The built page below a path of its own, as hosts of project pages serve it. */
export const base = '/a/path/of/its/own/';
export const servePage = () => serve(dist, { base });
export const policy = headers['Content-Security-Policy'];

/**
 * A tab on the page. `faults` gets every warning and error of the console, every uncaught error and every violation of
 * the policy, `requests` every address asked for, as they happen.
 */
export async function openPage(browser, url, { hash = '', ready = true, context: options = {}, setUp } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  // Patience for a machine that is busy with other things; nothing here waits without a reason.
  page.setDefaultTimeout(120_000);
  const faults = [];
  const requests = [];
  page.on('console', (message) => {
    if (['error', 'warning', 'assert'].includes(message.type())) faults.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('request', (request) => requests.push(request.url()));
  if (options.javaScriptEnabled !== false) {
    await page.addInitScript(() => {
      addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
    });
  }
  await setUp?.(context, page);
  await page.goto(url + hash);
  if (ready) await page.waitForSelector('html[data-ready]');
  return { context, page, faults, requests };
}

/** Every check as the page shows it: what is printed and what was measured. */
export const readChecks = (page) => page.$$eval('[data-check]', (elements) => elements.map((element) => ({
  id: element.dataset.check,
  kind: element.dataset.kind,
  within: element.dataset.within === 'true',
  residual: Number(element.dataset.residual),
  tolerance: Number(element.dataset.tolerance),
  printed: element.querySelector('[data-printed]').textContent,
  verdict: element.querySelector('.verdict').textContent.replace(/\s+/g, ' ').trim(),
})));

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Serious and critical findings of axe-core, as sentences. */
export async function axeFindings(page) {
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document));
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target.join(' ')}: ${[...node.any, ...node.all].map(({ message }) => message).join('; ')}`));
}
