
const nodes = [...document.querySelectorAll("[data-node]")], edges = [...document.querySelectorAll("[data-from]")];
const input = document.querySelector("input"), output = document.querySelector("output");
const show = (wanted) => {
  for (const n of nodes) n.classList.toggle("dim", !!wanted && !wanted.has(n.dataset.node));
  for (const e of edges) e.classList.toggle("dim", !!wanted && !(wanted.has(e.dataset.from) && wanted.has(e.dataset.to)));
  output.textContent = wanted ? wanted.size + " of " + nodes.length : "";
};
input.addEventListener("input", () => {
  const text = input.value.toLowerCase();
  const found = nodes.filter((n) => n.querySelector("title").textContent.toLowerCase().includes(text));
  show(text && new Set(found.map((n) => n.dataset.node)));
});
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
const choose = (node) => {
  input.value = "";
  show(node && new Set(edges.flatMap((e) => [e.dataset.from, e.dataset.to].includes(node) ? [e.dataset.from, e.dataset.to] : []).concat(node)));
};
for (const n of nodes) {
  n.setAttribute("tabindex", "0");
  n.setAttribute("role", "button");
}
document.querySelector("svg").addEventListener("click", (event) => choose(event.target.closest("[data-node]")?.dataset.node));
document.addEventListener("keydown", (event) => {
  const node = event.target.closest("[data-node]")?.dataset.node;
  if (event.key === "Escape") choose();
  if (node && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    choose(node);
  }
});
