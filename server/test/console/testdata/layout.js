// Returns the boxes of the parts of a page: a line with the name of each, its left and upper edge, width and height.
() => {
  const parts = "h1, h2, h3, nav, form, table, th[scope=col], dl, ul, ol, pre, details, svg, button, [role=alert], " +
    "[role=status], p.note, footer";
  const lines = [];
  for (const part of document.querySelectorAll(parts)) {
    const box = part.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) continue;
    const text = part.matches("h1, h2, h3, th, button") ? part.innerText : part.caption?.innerText;
    const name = part.getAttribute("aria-label") ?? text;
    const numbers = [box.left + scrollX, box.top + scrollY, box.width, box.height].map(Math.round);
    lines.push([part.tagName.toLowerCase(), ...(name ? [JSON.stringify(name)] : []), ...numbers].join(" "));
  }
  return lines.join("\n") + "\n";
}
