// What every plugin needs: handshake, health, lists, log, shutdown.
import fs from 'node:fs';
import os from 'node:os';
import grpc from '@grpc/grpc-js';
import { fromJSON } from '@grpc/proto-loader';
import protos from './dist/protos.json'; // build.mjs generates it from the .proto files

const wire = grpc.loadPackageDefinition(fromJSON(protos, { keepCase: true, defaults: true, longs: Number }));
const debug = /--?log-level[= ](debug|trace)/.test(process.argv.join(' ')); // the other flags are for the host

// log writes a line that the host copies to the log of the backup or restore.
export function log(level, message, fields = {}) {
  if (level !== 'debug' || debug) fs.writeSync(2, `${JSON.stringify({ '@level': level, '@message': message, ...fields })}\n`);
}

// serve serves until the host ends the process. An implementation only gets the requests for its name.
export function serve(version, implementations) {
  if (process.env.VELERO_PLUGIN !== 'hello') {
    process.stderr.write('this is a plugin: put it into the plugin directory of a server, which starts it\n');
    process.exit(1);
  }
  const server = new grpc.Server({ 'grpc.max_receive_message_length': -1 });
  const add = (service, methods, name) => {
    const handlers = Object.entries(methods).map(([method, handle]) => [method, ({ request }, reply) => {
      try {
        if (name && request.plugin !== name) throw new Error(`no ${service} "${request.plugin}" here; there is: ${name}`);
        reply(null, handle(request));
      } catch (err) { // the host reports the message
        reply({ code: grpc.status.UNKNOWN, details: err.message });
      }
    }]);
    server.addService(service.split('.').reduce((at, part) => at[part], wire).service, Object.fromEntries(handlers));
  };
  for (const { service, name, methods } of implementations) add(service, methods, name);
  const veleros = implementations.filter(({ service }) => !service.startsWith('cleat.')); // Velero fails if it does not know a kind
  const wireKind = ({ kind, version: number }) => (number > 1 ? `${kind}V${number}` : kind);
  const listed = veleros.map((i) => ({ command: process.argv[1], kind: wireKind(i), name: i.name }));
  add('generated.PluginLister', { ListPlugins: () => ({ plugins: listed }) });
  add('cleat.plugininfo.v1.PluginInfoService', { GetPluginInfo: () => ({ plugin_version: version, plugins: implementations }) });
  add('grpc.health.v1.Health', { Check: () => ({ status: 'SERVING' }) });
  const stop = () => server.tryShutdown(() => process.exit(0));
  add('plugin.GRPCController', { Shutdown: () => { setImmediate(stop); return {}; } });

  process.on('SIGINT', () => {}); // the host handles Ctrl-C
  process.on('SIGTERM', stop);
  const dir = fs.mkdtempSync(`${process.env.PLUGIN_UNIX_SOCKET_DIR || os.tmpdir()}/plugin`);
  process.on('exit', () => fs.rmSync(dir, { recursive: true, force: true }));
  server.bindAsync(`unix:${dir}/socket`, grpc.ServerCredentials.createInsecure(), (err) => {
    if (err) throw err;
    fs.writeSync(1, `1|2|unix|${dir}/socket|grpc|\n`); // nothing else may be written to stdout
  });
}
