// Makes a page the same in each run: it stays as it is, and what differs between runs is that of an example.
(names) => {
  for (const feed of window.feeds ?? []) feed.close();
  const patterns = [
    [/\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4}|Z)?( UTC)?/g, "2026-01-02 03:04:05 +0000 UTC"],
    [/\b\d\d:\d\d:\d\d\b/g, "03:04:05"],
    [/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, "01234567-89ab-cdef-0123-456789abcdef"],
    [/\b127\.0\.0\.1:\d+/g, "127.0.0.1:9000"],
    [/\b\d+(\.\d+)? ?([KMGT]i?)?B\b/g, "1 MB"],
    [/\b\d+(\.\d+)?\/s\b/g, "10/s"],
    [/\b(?!24h|720h)(\d+(\.\d+)?(d|h|ms|m|s|µs|ns))+\b/g, "5m"],
    [/(?<![+:-])\b\d{4,}\b(?!-)/g, "1000"],
  ];
  const example = (text) => {
    for (const [name, instead] of names) text = text.replaceAll(name, instead);
    for (const [pattern, instead] of patterns) text = text.replace(pattern, instead);
    return text;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.data !== example(text.data)) text.data = example(text.data);
  }
  for (const part of document.querySelectorAll("[aria-label]")) part.ariaLabel = example(part.ariaLabel);
  for (const printed of document.querySelectorAll("pre")) printed.textContent = "What the command prints.\n".repeat(3);
  for (const version of document.querySelectorAll("footer small")) version.textContent = "cleat";
}
