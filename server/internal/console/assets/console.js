// What the pages of the console do beyond htmx: they keep what people have opened, and say when the console is away.
(function () {
  const callbacks = Idiomorph.defaults.callbacks;
  callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.tagName === "DETAILS");
  Idiomorph.defaults.ignoreActiveValue = true;
  const away = (is) => () => { document.getElementById("connection").hidden = !is; };
  document.body.addEventListener("htmx:sseOpen", away(false));
  document.body.addEventListener("htmx:sseError", away(true));
})();
