// Builds dist/node-plugin: one executable file that contains the sources, the protos and the libraries.
import fs from 'node:fs';
import { buildSync } from 'esbuild';
import protobuf from 'protobufjs';

const root = new protobuf.Root();
root.resolvePath = (_, file) => (file.startsWith('host/') ? file : `${process.argv[2] ?? '../../proto'}/${file}`);
root.loadSync([
  'cleat/asyncbackupitemaction/v1/asyncbackupitemaction.proto', 'velero/restoreitemaction/v2/restoreitemaction.proto',
  'cleat/plugininfo/v1/plugininfo.proto', 'velero/pluginlister/v1/pluginlister.proto', 'host/health.proto', 'host/controller.proto',
], { keepCase: true });
fs.mkdirSync('dist', { recursive: true });
fs.writeFileSync('dist/protos.json', JSON.stringify(root.toJSON()));
// With --preserve-symlinks-main, node reads the file that the host has opened, even if the file at its path has been replaced.
const banner = { js: '#!/usr/bin/env -S node --preserve-symlinks-main' };
buildSync({ entryPoints: ['plugin.mjs'], bundle: true, platform: 'node', banner, outfile: 'dist/node-plugin' });
fs.chmodSync('dist/node-plugin', 0o755);
