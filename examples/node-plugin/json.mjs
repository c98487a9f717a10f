// JSON that gives every number back as it was written: an int64 of Kubernetes does not fit into a number of JavaScript. In
// between, numbers are strings behind a mark that no document can know.
const MARK = crypto.randomUUID();
const TOKENS = /\\.|"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g; // an escape, a string's end, a number

export function decode(field, bytes) {
  try {
    JSON.parse(bytes); // the document as it stands has to be right
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
