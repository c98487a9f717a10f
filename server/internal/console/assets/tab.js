// Forms have the token of their tab, which it got when a link was opened or somebody signed in. Unlike a cookie, the
// browser sends it nowhere by itself. Other tabs of the console get it from those that have it.
(function () {
  const keep = (token) => sessionStorage.setItem("tab", token);
  const kept = () => sessionStorage.getItem("tab");
  const tabs = new BroadcastChannel("tabs");
  tabs.addEventListener("message", (event) => {
    if (event.data) keep(event.data);
    else if (kept()) tabs.postMessage(kept());
  });
  const given = document.querySelector('meta[name="tab"]');
  if (given) keep(given.content);
  if (given || !kept()) tabs.postMessage(given ? given.content : "");
  document.addEventListener("formdata", (event) => {
    if (event.target.getAttribute("method") === "post" && kept()) event.formData.set("tab", kept());
  });
})();
