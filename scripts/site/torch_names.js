// Shows the rows that hold every word in the box and whose state is ticked; ?name=... in the address fills the box.
(() => {
  const box = document.querySelector(".name-filter input[type=search]");
  const kinds = [...document.querySelectorAll(".name-filter input[type=checkbox]")];
  const tables = [...document.querySelectorAll("table.names")].map(table => ({
    parts: [table, document.getElementById(table.dataset.heading)],
    rows: [...table.rows].map(row => ({
      row, state: row.cells[1].textContent,
      text: (table.dataset.place + "." + row.textContent).toLowerCase(),
    })),
  }));
  const filter = () => {
    const words = box.value.toLowerCase().split(/\s+/), shown = kinds.filter(kind => kind.checked).map(kind => kind.value);
    let total = 0;
    for (const { parts, rows } of tables) {
      let n = 0;
      for (const { row, state, text } of rows) {
        row.hidden = !(shown.includes(state) && words.every(word => text.includes(word)));
        n += !row.hidden;
      }
      for (const part of parts) part.hidden = !n;
      total += n;
    }
    document.querySelector(".name-filter span").textContent = total + " shown";
  };
  box.value = decodeURIComponent(location.search.replace("?name=", ""));
  for (const input of [box, ...kinds]) input.addEventListener("input", filter);
  filter();
})();
