// JSON that preserves every number as it was written, because the int64 of Kubernetes does not fit into a JavaScript number.
// Decoded numbers are strings with a random prefix, which no document can contain.
const MARK = crypto.randomUUID();
const TOKENS = /\\.|"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g; // an escape, the start or end of a string, a number

export function decode(field, bytes) {
  try {
    JSON.parse(bytes); // validate the original document
  } catch (err) {
    throw new Error(`decode ${field} of the request: ${err.message}`);
  }
  let inString = false;
  return JSON.parse(bytes.toString().replace(TOKENS, (token) => {
    if (token === '"') inString = !inString;
    return inString || token === '"' ? token : `"${MARK}${token}"`;
  }));
}

export const encode = (value) => Buffer.from(JSON.stringify(value).replace(new RegExp(`"${MARK}([^"]*)"`, 'g'), '$1'));
