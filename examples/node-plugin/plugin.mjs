// A plugin with two actions: one copies labelled ConfigMaps to a directory while they are backed up, and the other compares
// them with the copies when they are restored. copies.mjs does the work, serve.mjs has what every plugin needs.
import { createHash } from 'node:crypto';
import * as copies from './copies.mjs';
import { decode, encode } from './json.mjs';
import { log, serve } from './serve.mjs';

const COPY = 'example.cleat.dev/copy'; // the action, the label of the items to copy, and the annotation of the copied ones
const CHECK = 'example.cleat.dev/check';
const NEEDS = 'example.cleat.dev/needs-secret'; // the annotation that names a Secret to restore first

const labelled = (...includedResources) => ({ includedResources, selector: `${COPY}=true` });
const contentOf = ({ data = {}, binaryData = {} }) => encode({ data, binaryData });
const ownerOf = ({ metadata }) => metadata.uid ?? `${metadata.namespace}/${metadata.name}`;

const copy = {
  AppliesTo: () => ({ resource_selector: labelled('configmaps') }),
  Start({ item: sent, key }) {
    const item = decode('item', sent);
    if (!item.data && !item.binaryData) return { item: sent };
    const id = createHash('sha256').update(key).digest('hex'); // a repeated start must return the same operation
    copies.start(id, contentOf(item));
    log('info', 'copying', { plugin: COPY, namespace: item.metadata.namespace, name: item.metadata.name, operation: id });
    item.metadata.annotations = { ...item.metadata.annotations, [COPY]: id };
    return { item: encode(item), operation_id: id };
  },
  Progress: ({ operation_id: id }) => ({ progress: copies.progress(id) }),
  Cancel({ operation_id: id }) { copies.cancel(id); return { ack: true }; },
};

const check = {
  AppliesTo: () => ({ ResourceSelector: labelled('configmaps', 'secrets') }),
  Execute({ item: sent, itemFromBackup, restore }) {
    const [item, was] = [decode('item', sent), decode('itemFromBackup', itemFromBackup)];
    const { namespace, name } = was.metadata;
    if (item.kind === 'Secret') copies.mark(ownerOf(decode('restore', restore)), namespace, name);
    const { [COPY]: id, [NEEDS]: secret, ...annotations } = item.metadata.annotations ?? {};
    if (!id && !secret) return { item: sent };
    if (id && copies.content(id)?.equals(contentOf(was)) === false) throw new Error(`${name} is not what was copied as ${id}`);
    item.metadata.annotations = annotations;
    const additionalItems = secret ? [{ resource: 'secrets', namespace, name: secret }] : [];
    return { item: encode(item), additionalItems, waitForAdditionalItems: Boolean(secret), additionalItemsReadyTimeout: { seconds: 60 } };
  },
  AreAdditionalItemsReady({ restore, additionalItems }) { // a Secret is ready after Execute was called for it
    const owner = ownerOf(decode('restore', restore));
    return { ready: additionalItems.every(({ namespace, name }) => copies.marked(owner, namespace, name)) };
  },
  Progress({ operationID }) { throw new Error(`no operation ${operationID}: this action starts none`); },
  Cancel: () => ({}),
};

serve('0.1.0', [
  { service: 'cleat.asyncbackupitemaction.v1.AsyncBackupItemActionService', kind: 'AsyncBackupItemAction', version: 1, name: COPY, methods: copy },
  { service: 'v2.RestoreItemAction', kind: 'RestoreItemAction', version: 2, name: CHECK, methods: check },
]);
