"use strict";
// All texts of the data are set as text content, never as markup.
const byId = (id) => document.getElementById(id);
const state = { models: [], user: "", actual: null, history: null, shown: 0, editable: false, asked: 0 };

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function text(name, className, content) {
  const made = element(name, className);
  made.textContent = content;
  return made;
}

function tell(message, isError = false) {
  byId("status").textContent = message;
  byId("status").className = isError ? "error" : "";
}

async function ask(path, body) {
  const options = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, options || {});
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

// An item: its name and id, or its id alone.
function label(item) {
  const made = element("span", "name");
  made.append(text("bdi", "", item.name === null ? item.id : item.name));
  if (item.name !== null) made.append(" ", text("bdi", "id", item.id));
  return made;
}

function changeMark(item, before) {
  const old = before.find((other) => other.id === item.id);
  if (!old) return text("span", "mark new", "new");
  const moved = old.rank - item.rank;
  if (moved === 0) return text("span", "mark", "=");
  return text("span", moved > 0 ? "mark up" : "mark down", (moved > 0 ? "▲ " : "▼ ") + Math.abs(moved));
}

function showAnswers(answers) {
  const columns = answers.map((answer, at) => {
    const others = answers.filter((_, other) => other !== at);
    const rows = answer.items.map((item) => {
      const row = element("li", "row", text("span", "rank", item.rank), label(item));
      if (answer.changed) row.append(changeMark(item, state.actual[at].items));
      const shared = others.some((other) => other.items.some((one) => one.id === item.id));
      if (shared) {
        row.classList.add("both");
        row.title = "recommended by both models";
      }
      row.append(text("span", "score", item.score.toFixed(4)));
      return row;
    });
    const notes = [...answer.notes];
    if (!rows.length) notes.push("no items");
    const section = element("section", "", text("h2", "", state.models[at].title));
    section.append(text("p", "note", notes.join("; ")), element("ol", "", ...rows));
    return section;
  });
  byId("answers").replaceChildren(...columns);
}

function isChanged() {
  const own = state.actual[state.shown].history.map((item) => item.id);
  return own.length !== state.history.length || own.some((id, at) => id !== state.history[at].id);
}

function showHistory() {
  const rows = state.history.map((item, at) => {
    const remove = text("button", "remove", "✕");
    remove.type = "button";
    remove.setAttribute("aria-label", "remove " + (item.name === null ? item.id : item.name));
    remove.addEventListener("click", () => change(state.history.filter((_, other) => other !== at)));
    return element("li", "row", label(item), ...(state.editable ? [remove] : []));
  });
  byId("history").replaceChildren(...rows.reverse());
  const first = state.actual[state.shown];
  const order = first.ordered ? "newest first" : "in no order";
  const seen = first.seen > first.history.length ? ` of ${first.seen} seen items` : "";
  const what = isChanged() ? "What if this were the history?" : `${first.history.length} items${seen}, ${order}.`;
  byId("past-note").textContent = what;
  byId("reset").hidden = !isChanged();
}

async function load(history) {
  const turn = ++state.asked;
  const question = { user: state.user, k: Number(byId("k").value) || 10, with_seen: byId("seen").checked };
  try {
    tell("…");
    if (history === null) {
      const actual = await ask("recommend", question);
      if (turn !== state.asked) return;
      state.actual = actual;
      state.shown = Math.max(actual.findIndex((answer) => answer.ordered), 0);
      state.history = actual[state.shown].history;
      showAnswers(actual);
    } else {
      const answers = await ask("recommend", { ...question, history: history.map((item) => item.id) });
      if (turn !== state.asked) return;
      state.history = history;
      showAnswers(answers);
    }
    showHistory();
    byId("columns").hidden = false;
    tell(history === null ? `User ${state.user}` : `User ${state.user} with a changed history`);
  } catch (error) {
    if (turn === state.asked) tell(error.message, true);
  }
}

function change(history) {
  const own = state.actual[state.shown].history.map((item) => item.id);
  const same = own.length === history.length && own.every((id, at) => id === history[at].id);
  return load(same ? null : history);
}

// Suggestions while typing; the value of an option is an id.
function suggest(input, list, path, option) {
  let turn = 0;
  byId(input).addEventListener("input", async () => {
    const own = ++turn;
    try {
      const found = await ask(path + "?text=" + encodeURIComponent(byId(input).value));
      if (own === turn) byId(list).replaceChildren(...found.map(option));
    } catch (error) {
      tell(error.message, true);
    }
  });
}

function option(value, about) {
  const made = document.createElement("option");
  made.value = value;
  if (about) made.label = about;
  return made;
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  state.user = byId("user").value;
  load(null);
});

byId("add").addEventListener("submit", async (event) => {
  event.preventDefault();
  const wanted = byId("item").value;
  if (!wanted || state.actual === null) return;
  try {
    const found = await ask("items?text=" + encodeURIComponent(wanted));
    const item = found.find((one) => one.id === wanted) || found[0];
    if (!item) return tell("no item has this text in its name or id", true);
    byId("item").value = "";
    await change([...state.history, item]);
  } catch (error) {
    tell(error.message, true);
  }
});

byId("reset").addEventListener("click", () => load(null));
suggest("user", "users", "users", (user) => option(user));
suggest("item", "items", "items", (item) => option(item.id, item.name === null ? "" : item.name));

ask("start").then((start) => {
  state.models = start.models;
  state.editable = start.models.some((model) => model.reads !== "ids");
  byId("add").hidden = !state.editable;
  const reads = { ids: "reads user ids", histories: "reads histories", both: "reads user ids and histories" };
  byId("models").replaceChildren(
    ...start.models.map((model) => {
      const sizes = `${model.model}, ${model.users} users, ${model.items} items, ${reads[model.reads]}`;
      return element("li", "", text("bdi", "", model.title), ": " + sizes);
    }),
  );
  state.user = byId("user").value = start.user;
  if (start.user) load(null);
}, (error) => tell(error.message, true));
