// What the pages of the console do beyond htmx: they keep what people have opened, say when the console is away, and
// lead to the form for a token when somebody has signed out.
(function () {
  const callbacks = Idiomorph.defaults.callbacks;
  callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.tagName === "DETAILS");
  Idiomorph.defaults.ignoreActiveValue = true;
  const away = (is) => () => { document.getElementById("connection").hidden = !is; };
  document.body.addEventListener("htmx:sseOpen", away(false));
  document.body.addEventListener("htmx:sseError", away(true));
  document.body.addEventListener("htmx:sseClose", (event) => {
    const form = document.getElementById("sign-in");
    if (event.detail.type === "message" && form) location.assign(form.href);
  });
})();
