// The built page in Chromium, under the policy it is served with and below a path of its own.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { load } from 'locant';
import { axeFindings, base, dist, openBrowser, openPage, pageCode, policy, readChecks, root, servePage } from './support.mjs';

const { models, initialState, scientific } = await pageCode();
const library = await load({ kernel: 'deterministic' });
let browser;
let server;
before(async () => {
  server = await servePage();
  browser = await openBrowser();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const hashOf = (model, more = '') => `#v=1&view=${model.id}${more}`;
const open = (hash = '', options = {}) => openPage(browser, server.url, { hash, ...options });
const widths = [[360, 740], [768, 1024], [1280, 900], [1920, 1080]];

test('the policy allows no inline script, no inline style and no other origin', () => {
  assert.match(policy, /default-src 'self'/);
  assert.match(policy, /script-src 'self' 'wasm-unsafe-eval'/);
  assert.doesNotMatch(policy, /unsafe-inline|'unsafe-eval'|https?:|\*/);
});

test('types and templates check without a warning', () => {
  execFileSync(join(root, 'node_modules/.bin/svelte-check'), ['--workspace', join(root, 'web/page'), '--fail-on-warnings'], { stdio: 'pipe' });
});

test('the page as it arrives has a figure and its numbers, no inline style, script or handler, and relative addresses', () => {
  const html = readFileSync(join(dist, 'index.html'), 'utf8');
  assert.match(html, /<svg[^>]*class="[^"]*drawing/);
  assert.match(html, /data-check="carried"/);
  assert.doesNotMatch(html, /\sstyle=|<style|<script(?![^>]*\ssrc=)|\son\w+=/);
  assert.doesNotMatch(html, /(?:src|href)="(?:https?:|\/)/);
});

test('what a first visit loads stays within its budget', () => {
  const files = [...readFileSync(join(dist, 'offline.js'), 'utf8').matchAll(/"(\.\/[^"]*)"/g)].map(([, name]) => name).filter((name) => name !== './');
  const sizes = files.map((name) => [name, gzipSync(readFileSync(join(dist, name)), { level: 9 }).length]);
  const sum = (of) => sizes.filter(([name]) => of(name)).reduce((total, [, size]) => total + size, 0);
  const [module, rest] = [sum((name) => name.endsWith('.wasm')), sum((name) => !name.endsWith('.wasm'))];
  console.log(`a first visit loads ${(module / 1024).toFixed(1)} KB of module and ${(rest / 1024).toFixed(1)} KB of page, gzip`);
  assert.ok(module > 0 && rest > 0);
  // The module's own budget is the package's affair.
  assert.ok(rest <= 110 * 1024, `${rest} bytes`);
});

// What every view promises. One tab serves a view's tests one after another: loading is what takes time.
for (const model of models) {
  test(model.id, async (t) => {
    const { context, page, faults, requests } = await open(hashOf(model));
    /** The view as an address has it, whatever was done before. */
    const show = async (more = '') => {
      await page.evaluate((hash) => { location.hash = hash; }, hashOf(model, '&embed=1'));
      await page.waitForSelector('.frame.embed');
      await page.evaluate((hash) => { location.hash = hash; }, hashOf(model, more));
      await page.waitForSelector(`.frame:not(.embed) main[data-view="${model.id}"]`);
    };
    const identities = async () => (await readChecks(page)).filter(({ kind }) => kind === 'identity').map(({ within }) => within);

    await t.test('loads without a console message, an error or a request to another origin', async () => {
      await page.waitForLoadState('networkidle');
      assert.deepEqual(requests.filter((url) => !url.startsWith(new URL(base, server.url).href) && !url.startsWith('data:')), []);
      assert.deepEqual(faults, []);
    });

    await t.test('the numbers on the page are those of the package in Node', async () => {
      const state = initialState(model);
      const result = model.compute(library, state);
      const shown = await readChecks(page);
      assert.deepEqual(shown.map(({ id, residual, printed }) => ({ id, residual, printed })),
        model.checks(result, state).map(({ id, residual }) => ({ id, residual, printed: scientific(residual) })));
      assert.equal(await page.textContent('[data-sentence]'), model.sentence(result, state));
      await page.click('details.data summary');
      const cells = await page.$$eval('details.data tbody tr', (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
      assert.deepEqual(cells, model.table(result, state).rows.slice(0, 64).map((row) => row.map(String)));
    });

    await t.test('all identities hold by default; W breaks the first and no other; W again mends it', async () => {
      await show();
      const allHold = (await identities()).map(() => true);
      assert.deepEqual(await identities(), allHold);
      await page.keyboard.press('w');
      assert.deepEqual(await identities(), allHold.map((_, index) => index > 0));
      assert.match((await readChecks(page))[0].verdict, /✗ broken/);
      assert.equal(await page.locator('.panel.broken').count(), 1);
      await page.keyboard.press('w');
      assert.deepEqual(await identities(), allHold);
    });

    await t.test('R takes every change back', async () => {
      await show();
      for (const key of [']', ' ', 'w', ']']) await page.keyboard.press(key);
      assert.notEqual(new URL(page.url()).hash, hashOf(model));
      await page.keyboard.press('r');
      assert.equal(new URL(page.url()).hash, hashOf(model));
    });

    await t.test('every control is reached and left with the Tab key, and shows that it has the focus', async () => {
      await show();
      const count = await page.$$eval('main button, main a[href], main select, main summary, main input, main [tabindex="0"]', (elements) => {
        const groups = new Set();
        return elements.filter((element) => {
          if (element.closest('details:not([open])') && element.tagName !== 'SUMMARY') return false;
          if (element.type !== 'radio') return true;
          // The Tab key stops once in a group of radio buttons; the arrow keys do the rest.
          if (groups.has(element.name)) return false;
          groups.add(element.name);
          return true;
        }).length;
      });
      await page.evaluate(() => document.querySelector('main').focus());
      const seen = new Set();
      const bare = [];
      for (let press = 0; press < count + 5; press += 1) {
        await page.keyboard.press('Tab');
        const found = await page.evaluate(() => {
          const element = document.activeElement;
          if (!element?.closest('main')) return undefined;
          element.dataset.seen ??= String(Math.random());
          const marks = [element, element.nextElementSibling, ...element.querySelectorAll('.grip')].filter(Boolean).map((each) => getComputedStyle(each));
          const visible = marks.some((style) => (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2) || parseFloat(style.strokeWidth) >= 3);
          return { id: element.dataset.seen, visible, what: element.outerHTML.slice(0, 90) };
        });
        if (!found) break;
        seen.add(found.id);
        if (!found.visible) bare.push(found.what);
      }
      assert.equal(seen.size, count);
      assert.deepEqual(bare, []);
    });

    await t.test('with reduced motion nothing moves by itself', async () => {
      await page.emulateMedia({ reducedMotion: 'reduce' });
      await show();
      await page.keyboard.press(' ');
      assert.equal(await page.evaluate(() => document.getAnimations().filter(({ effect }) => effect.getComputedTiming().duration > 1).length), 0);
    });

    for (const colorScheme of ['light', 'dark']) {
      await t.test(`axe-core has no serious finding in the ${colorScheme} theme, and text in the drawing keeps 4.5 : 1`, async () => {
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
        for (const more of ['', `&${model.wrong.field}=${model.wrong.wrongs[0]}&unknown=1`]) {
          await show(more);
          await page.$eval('details.data', (details) => { details.open = true; });
          assert.deepEqual(await axeFindings(page), []);
          assert.deepEqual(await page.evaluate(poorContrast), []);
        }
      });
    }

    await t.test('forced colours reach every label of the drawing', async () => {
      await page.emulateMedia({ forcedColors: 'active', colorScheme: 'light' });
      await show();
      const fills = await page.$$eval('main svg.drawing text', (texts) => [...new Set(texts.map((text) => getComputedStyle(text).fill))]);
      assert.deepEqual(fills, [await page.evaluate(() => getComputedStyle(document.body).color)]);
      await page.emulateMedia({ forcedColors: 'none' });
    });

    await t.test('at four widths nothing scrolls sideways, all to press is 40 px, and labels keep clear of each other', async () => {
      await show();
      for (const [width, height] of widths) {
        await page.setViewportSize({ width, height });
        await page.waitForFunction((across) => innerWidth === across && document.querySelector('main svg.drawing:not(.ruler)').viewBox.baseVal.width <= across, width);
        await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
        const { scroll, small, clashes } = await page.evaluate(layoutFaults);
        assert.ok(scroll <= 0, `${width} px: ${scroll} px too wide`);
        assert.deepEqual(small, [], `${width} px`);
        assert.deepEqual(clashes, [], `${width} px`);
      }
    });

    await t.test('after all of this the console is still empty', () => assert.deepEqual(faults, []));
    await context.close();
  });
}

/** Runs in the page: text of drawings with less than 4.5 : 1 against what lies under it. */
function poorContrast() {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const numbers = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const mix = (top, under, share) => top.map((value, index) => value * share + under[index] * (1 - share));
  const surface = numbers(getComputedStyle(document.querySelector('.card')).backgroundColor);
  return [...document.querySelectorAll('main svg.drawing text')].filter((text) => text.textContent.trim() !== '').flatMap((text) => {
    // The ground: the card, and on it the shapes of the same cell or handle that lie under the text.
    let ground = surface;
    for (const shape of text.closest('.cell, .handle')?.querySelectorAll('rect, circle') ?? []) {
      const { fill, fillOpacity } = getComputedStyle(shape);
      if (fill !== 'none' && fill !== 'rgba(0, 0, 0, 0)') ground = mix(numbers(fill), ground, Number(fillOpacity));
    }
    const [a, b] = [light(numbers(getComputedStyle(text).fill)), light(ground)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    return ratio < 4.5 ? [`${text.textContent.trim()}: ${ratio.toFixed(2)}`] : [];
  });
}

/** Runs in the page: how far it scrolls sideways, what is too small to press, which labels of drawings touch or leave. */
function layoutFaults() {
  const pressed = [...document.querySelectorAll('main button, main select, main summary, main input, header a, header button, nav a, nav select, .handle .target')]
    .map((element) => {
      // A radio button is pressed by its label.
      const { width: across, height: down } = (element.type === 'radio' ? element.closest('label') : element).getBoundingClientRect();
      return { what: `${element.tagName} ${element.textContent.trim().slice(0, 20)}`, across, down };
    });
  const clashes = [];
  for (const drawing of document.querySelectorAll('main svg.drawing:not(.ruler)')) {
    const frame = drawing.getBoundingClientRect();
    const labels = [...drawing.querySelectorAll('text')].filter((text) => text.textContent.trim() !== '')
      .map((text) => ({ text: text.textContent.trim(), box: text.getBoundingClientRect() }));
    labels.forEach((one, index) => {
      if (one.box.left < frame.left - 2 || one.box.right > frame.right + 2) clashes.push(`outside: ${one.text}`);
      for (const other of labels.slice(index + 1)) {
        const across = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
        const down = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
        if (across > 1.5 && down > 4) clashes.push(`${one.text} × ${other.text}`);
      }
    });
  }
  return {
    scroll: document.documentElement.scrollWidth - innerWidth,
    small: pressed.filter(({ across, down }) => across > 0 && (across < 39.5 || down < 39.5)),
    clashes,
  };
}

test('shuffle: words move by keyboard and by dragging, and the address follows', async () => {
  const { context, page } = await open('#v=1&view=shuffle');
  const order = () => page.$$eval('.chip', (chips) => chips.map((chip) => chip.textContent));
  await page.focus('[data-token="0"]');
  await page.keyboard.press('ArrowRight');
  assert.deepEqual(await order(), ['man', 'the', 'bit', 'the', 'dog', '.']);
  assert.equal(await page.evaluate(() => document.activeElement.dataset.token), '0');
  await page.keyboard.press('End');
  assert.deepEqual(await order(), ['man', 'bit', 'the', 'dog', '.', 'the']);
  await page.waitForTimeout(250);
  const from = await page.locator('[data-token="5"]').boundingBox();
  const to = await page.locator('[data-token="4"]').boundingBox();
  await page.mouse.move(from.x + from.width / 2, from.y + 20);
  await page.mouse.down();
  await page.mouse.move(to.x + to.width / 2, to.y + 20, { steps: 8 });
  await page.mouse.up();
  assert.deepEqual(await order(), ['.', 'man', 'bit', 'the', 'dog', 'the']);
  assert.match(page.url(), /order=5\.4\.2\.3\.1\.0/);
  await context.close();
});

test("shuffle: the reader's own sentence is taken, and letters typed into it are no commands", async () => {
  const { context, page, faults } = await open();
  await page.fill('input[type=text]', 'Ein Satz auf Deutsch.');
  await page.keyboard.press('Enter');
  assert.deepEqual(await page.$$eval('.word', (words) => words.map((word) => word.textContent)), ['Ein', 'Satz', 'auf', 'Deutsch', '.']);
  assert.equal((await readChecks(page))[0].within, true);
  await page.fill('input[type=text]', '');
  await page.type('input[type=text]', 'rw c?');
  assert.equal(await page.locator('.panel.broken, dialog[open]').count(), 0);
  assert.deepEqual(faults, []);
  await context.close();
});

test('rotation: markers move by dragging and by keyboard, one alone or both', async () => {
  const { context, page } = await open('#v=1&view=rotation');
  const positions = async () => [
    Number(await page.getAttribute('.handle.query', 'aria-valuenow')),
    Number(await page.getAttribute('.handle.key', 'aria-valuenow')),
  ];
  await page.focus('.handle.both');
  await page.keyboard.press('ArrowRight');
  assert.deepEqual(await positions(), [4, 6]);
  await page.keyboard.press('End');
  assert.deepEqual(await positions(), [61, 63]);
  await page.keyboard.press('Home');
  assert.deepEqual(await positions(), [0, 2]);
  await page.focus('.handle.query');
  await page.keyboard.press('PageUp');
  assert.deepEqual(await positions(), [8, 2]);
  const box = await page.locator('.handle.key circle').boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + 300, box.y + 5, { steps: 10 });
  await page.mouse.up();
  const [query, key] = await positions();
  assert.equal(query, 8);
  assert.ok(key > 20, `key is at ${key}`);
  assert.match(page.url(), new RegExp(`query=8&key=${key}`));
  await context.close();
});

test('cached generation: steps go by with the brackets, and each bar can be pressed', async () => {
  const { context, page } = await open('#v=1&view=cached-generation&step=0');
  for (let press = 0; press < 3; press += 1) await page.keyboard.press(']');
  assert.match(page.url(), /step=3/);
  await page.keyboard.press('[');
  assert.match(page.url(), /step=2/);
  await page.click('[data-step="9"]');
  assert.match(page.url(), /step=9/);
  assert.match(await page.textContent('[data-sentence]'), /^At step 9, the new word at position 14 in the cache/);
  await context.close();
});

test('what the library refuses is shown in its own words, and the rest of the page goes on', async () => {
  const { context, page, faults } = await open('#v=1&view=cached-generation&method=learned&steps=20');
  const model = models.find(({ id }) => id === 'cached-generation');
  let message;
  try {
    model.compute(library, { ...initialState(model), method: 'learned', steps: 20 });
  } catch (error) {
    ({ message } = error);
  }
  assert.equal(await page.textContent('[data-fault] code'), message);
  // The controls are still there, and lead out of it.
  await page.check('.controls input[value=rotary]');
  assert.equal(await page.locator('[data-fault]').count(), 0);
  assert.equal((await readChecks(page))[0].within, true);
  await page.click('nav a[href*="view=rotation"]');
  await page.waitForSelector('main[data-view=rotation] .handle');
  assert.deepEqual(faults, []);
  await context.close();
});

test('? tells the keys, Escape closes them', async () => {
  const { context, page } = await open();
  await page.keyboard.press('?');
  assert.ok(await page.locator('dialog[open]').isVisible());
  assert.deepEqual(await axeFindings(page), []);
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('dialog[open]').count(), 0);
  await context.close();
});

test('choosing another view is a step that Back undoes; moving things in a view is not', async () => {
  const { context, page } = await open('#v=1&view=shuffle');
  const steps = await page.evaluate(() => history.length);
  await page.click('nav a[href*="view=rotation"]');
  await page.waitForSelector('main[data-view=rotation]');
  assert.equal(await page.evaluate(() => history.length), steps + 1);
  for (let press = 0; press < 6; press += 1) await page.keyboard.press(']');
  assert.equal(await page.evaluate(() => history.length), steps + 1);
  await page.goBack();
  await page.waitForSelector('main[data-view=shuffle]');
  await page.goForward();
  await page.waitForSelector('main[data-view=rotation]');
  assert.match(page.url(), /query=9&key=11/);
  await context.close();
});

test('an address typed by hand is followed; what it cannot have is said in a note', async () => {
  const { context, page } = await open('#v=1&view=rotation&query=99&colour=red');
  assert.match(await page.textContent('[data-notes]'), /query: 99 is above 63; 63 is used.*Kept in the address, read by nothing here: colour/s);
  await page.evaluate(() => { location.hash = '#v=1&view=rotation&query=7'; });
  await page.waitForFunction(() => document.querySelector('.handle.query').getAttribute('aria-valuenow') === '7');
  assert.equal(await page.locator('[data-notes]').count(), 0);
  await context.close();
});

test('hide= takes parts away and embed=1 leaves the figure alone', async () => {
  const { context, page } = await open('#v=1&view=rotation&hide=controls,call,table,notes&embed=1');
  assert.deepEqual(await page.evaluate(() => ['.controls', '.call', '.data', '.notice', 'header.top', 'nav'].filter((part) => document.querySelector(part))), []);
  assert.equal(await page.locator('.figure svg.drawing').count(), 1);
  await context.close();
});

test('call, data, link and drawing can be taken along', async () => {
  const { context, page } = await open('#v=1&view=rotation&query=9', { context: { permissions: ['clipboard-read', 'clipboard-write'], acceptDownloads: true } });
  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  const copied = async (act, pattern) => {
    await act();
    await page.waitForFunction((source) => new RegExp(source).test(document.querySelector('.said').textContent), pattern);
    return clipboard();
  };
  assert.match(await copied(() => page.keyboard.press('c'), 'Call'), /await load\(/);
  await page.click('text=C++');
  await page.click('.call .button:has-text("Copy call")');
  await page.waitForFunction(async () => (await navigator.clipboard.readText()).includes('locant::Rotation'));
  assert.equal(await copied(() => page.click('text=Copy link'), 'Link'), `${server.url}#v=1&view=rotation&query=9`);
  assert.equal((await copied(() => page.click('text=Copy data'), 'Data')).trim().split('\n').length, 65);
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('text=Save drawing')]);
  assert.equal(file.suggestedFilename(), 'locant-rotation.svg');
  const svg = readFileSync(await file.path(), 'utf8');
  const problems = await page.evaluate((source) => {
    const parsed = new DOMParser().parseFromString(source, 'image/svg+xml');
    return [parsed.querySelector('parsererror')?.textContent, source.includes('var(--') ? 'a variable is left' : undefined].filter(Boolean);
  }, svg);
  assert.deepEqual(problems, []);
  await context.close();
});

test('what is read aloud changes when a change is done, and says the numbers', async () => {
  const { context, page } = await open('#v=1&view=rotation');
  assert.match(await page.textContent('[data-spoken]'), /Query at position 3, key at 5/);
  await page.focus('.handle.key');
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction(() => /key at 6/.test(document.querySelector('[data-spoken]').textContent));
  await context.close();
});

test('the theme follows the system until the reader chooses, and the choice is kept', async () => {
  const { context, page } = await open('', { context: { colorScheme: 'dark' } });
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await paper();
  await page.click('header >> text=Light');
  const light = await paper();
  assert.notEqual(light, dark);
  await page.reload();
  await page.waitForSelector('html[data-ready]');
  assert.equal(await paper(), light);
  await context.close();
});

test('where WebAssembly may not be compiled, a plain sentence says so and the first picture stays', async () => {
  const { context, page } = await open('', {
    ready: false,
    setUp: (given) => given.route('**/*', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, headers: { ...response.headers(), 'content-security-policy': policy.replace(" 'wasm-unsafe-eval'", '') } });
    }),
  });
  await page.waitForSelector('html[data-failed]');
  assert.match(await page.textContent('.plain-sentence'), /does not run the WebAssembly library/);
  assert.ok(await page.locator('svg.drawing').first().isVisible());
  await context.unrouteAll({ behavior: 'ignoreErrors' });
  await context.close();
});

test('where there is no WebAssembly at all, the same', async () => {
  const { context, page } = await open('', { ready: false, setUp: (_, tab) => tab.addInitScript(() => { delete globalThis.WebAssembly; }) });
  await page.waitForSelector('html[data-failed]');
  assert.ok(await page.locator('.plain-sentence').isVisible());
  assert.ok(await page.locator('svg.drawing').first().isVisible());
  await context.close();
});

test('without JavaScript the first picture is there and a sentence says what is missing', async () => {
  const { context, page } = await open('', { ready: false, context: { javaScriptEnabled: false } });
  assert.ok(await page.locator('svg.drawing').first().isVisible());
  assert.match(await page.textContent('noscript'), /needs JavaScript and WebAssembly/);
  await context.close();
});

test('after one visit the page works without a network', async () => {
  const { context, page } = await open('#v=1&view=rotation');
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
  await page.waitForFunction(async () => {
    const [name] = await caches.keys();
    return name !== undefined && (await (await caches.open(name)).keys()).length >= 4;
  });
  await context.setOffline(true);
  await page.reload();
  await page.waitForSelector('html[data-ready]');
  assert.equal((await readChecks(page))[0].within, true);
  await context.close();
});
