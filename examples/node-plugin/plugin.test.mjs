import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { decode, encode } from './json.mjs';

process.env.CLEAT_COPY_DIR = fs.mkdtempSync(path.join(os.tmpdir(), 'copies'));
process.on('exit', () => fs.rmSync(process.env.CLEAT_COPY_DIR, { recursive: true }));
const copies = await import('./copies.mjs');
const id = (digit) => digit.repeat(64);

test('JSON is preserved', () => {
  for (const text of [
    '{"a":12345678901234567,"b":-1.50e+3,"c":"5","d":[0,"\\"6\\\\"],"e":"\u00fc","f":null}',
    `{"a":"${'x'.repeat(1 << 20)}","b":"${'\\n'.repeat(1 << 20)}","c":7}`,
  ]) {
    assert.equal(encode(decode('item', Buffer.from(text))).toString(), text);
  }
  assert.throws(() => decode('item', Buffer.from('{"a":01}')), /decode item of the request: /);
});

test('a copy of another process is continued', async () => {
  const dir = path.join(process.env.CLEAT_COPY_DIR, id('a'));
  fs.mkdirSync(dir);
  fs.writeFileSync(path.join(dir, 'wanted'), 'content');
  fs.writeFileSync(path.join(dir, 'copy'), 'con');
  assert.equal(copies.content(id('a')), undefined);
  while (!copies.progress(id('a')).completed) await sleep(1);
  assert.equal(copies.content(id('a')).toString(), 'content');
});

test('a failed copy reports the error', () => {
  const dir = path.join(process.env.CLEAT_COPY_DIR, id('b'));
  fs.mkdirSync(path.join(dir, 'copy'), { recursive: true }); // a directory instead of the file
  copies.start(id('b'), Buffer.from('x'.repeat(1 << 20)));
  const { completed, err } = copies.progress(id('b'));
  assert.equal(completed, true);
  assert.match(err, /EISDIR/);
});
