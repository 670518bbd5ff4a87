/** Reasons: why does the query find the product, or why not? */

import { byId, drawn, make, showScore, spoken } from "./dom.js";

const SHOWN = 8; // words of the query
const HINT =
  "Each bar shows what one word of the query adds. A product's score is the scores along its " +
  "path, multiplied.";
const FILTER_HINT = "Ranks along the path ignore the filter.";
const STRONGEST = 3; // parts that the sentence names
const CONSTANT = "constant"; // what every product gets
const LABELS = {
  tree: "Tree",
  towers: "Two towers",
  lexical: "Lexical index",
  neighbors: "Query neighbors",
  "same query": "Same query",
  popularity: "Popularity",
  [CONSTANT]: "Constant",
};

/** Show the product, and that its explanation is loading. */
export function drawWaiting(id, title) {
  byId("reasons-title").textContent = title || id;
  byId("reasons-id").textContent = id;
  byId("reasons-body").replaceChildren(make("p", { className: "hint" }, "Loading…"));
}

/** Show why there is no explanation. */
export function drawFailure(sentence, ranks) {
  const failure = make("p", { className: "error" }, sentence);
  byId("reasons-body").replaceChildren(failure, drawRanks(ranks));
}

/** `ranks` is [label, rank or null] for each column; `asked` has k, beam and where. */
export function drawReasons(reasons, ranks, asked) {
  byId("reasons-title").textContent = reasons.title || reasons.product;
  byId("reasons-id").textContent = reasons.product;
  const { parts, steps } = reasons;
  const path = steps.length ? drawPath(steps, asked) : [];
  byId("reasons-body").replaceChildren(
    drawVerdict(reasons),
    drawRanks(ranks),
    ...(parts.length ? drawParts(reasons) : []),
    ...(parts.length && path.length ? [fold("Path through the tree", path.slice(1))] : path),
  );
}

function drawVerdict({ is_returned: isReturned, verdict, score, parts }) {
  const said = verdict.charAt(0).toUpperCase() + verdict.slice(1);
  const mark = drawn("", isReturned ? "✓ " : "✕ ");
  const start = isReturned ? said : `Not in the results: ${verdict}`;
  const worth = isReturned ? `Score ${showScore(score)}` : `Its score would be ${showScore(score)}`;
  const className = `verdict verdict-${isReturned ? "found" : "lost"}`;
  const why = isReturned ? nameStrongest(parts) : "";
  return make("p", { className }, mark, `${start}. ${worth}.${why}`);
}

/** What counted most, in a sentence. */
function nameStrongest(parts) {
  const strong = parts.filter(({ name, share }) => name !== CONSTANT && share > 0);
  if (!strong.length) return "";
  strong.sort((one, other) => other.share - one.share);
  const named = strong.slice(0, STRONGEST).map(({ name, words }) => {
    const best = words.filter(({ weight }) => weight > 0).slice(0, 2);
    const quoted = best.map(({ word }) => `“${word}”`).join(", ");
    return quoted ? `${labelOf(name)} (${quoted})` : labelOf(name);
  });
  return ` What counted most: ${named.join("; ")}.`;
}

function labelOf(name) {
  return LABELS[name] ?? name;
}

function fold(title, content) {
  return make("details", { className: "fold" }, make("summary", {}, title), ...content);
}

function drawParts({ parts, linear, score }) {
  const shown = parts.filter(({ name }) => name !== CONSTANT);
  const constant = parts.find(({ name }) => name === CONSTANT)?.share ?? 0;
  const largest = Math.max(1e-9, ...shown.map(({ share }) => Math.abs(share)));
  const sum =
    `Together with a constant of ${signed(constant)} they add up to ${signed(linear)}, ` +
    `which stands for a score of ${showScore(score)}. Words are in units of the part's own score.`;
  return [
    make("h3", {}, "What each part adds"),
    make("ul", { className: "parts" }, ...shown.map((part) => drawPart(part, largest))),
    make("p", { className: "hint" }, sum),
  ];
}

function drawPart({ name, share, note, is_proposed: isProposed, words }, largest) {
  const kind = isProposed === false ? "part part-silent" : "part";
  const proposed = isProposed === null ? "" : isProposed ? "proposed it: " : "did not propose it: ";
  return make(
    "li",
    { className: kind },
    drawAmount(make("span", { className: "part-name" }, labelOf(name)), share, largest),
    make("p", { className: "part-note" }, `${proposed}${note}`),
    words.length ? drawWords(words) : null,
  );
}

function drawWords(words) {
  const chips = words.slice(0, SHOWN).map(({ word, weight }) => {
    const side = weight < 0 ? "against" : "for";
    return make(
      "li",
      { className: `word word-${side}` },
      make("bdi", {}, word),
      make("span", { className: "value" }, ` ${signed(weight)}`),
    );
  });
  return make("ul", { className: "words", "aria-label": "Words of the query" }, ...chips);
}

function drawPath(steps, asked) {
  const weights = steps.flatMap(({ words }) => words);
  const largest = Math.max(1e-9, ...weights.map(({ weight }) => Math.abs(weight)));
  return [
    make("h3", {}, "Path through the tree"),
    make("ol", { className: "steps" }, ...steps.map((step) => drawStep(step, steps, largest, asked))),
    make("p", { className: "hint" }, asked.where ? `${HINT} ${FILTER_HINT}` : HINT),
  ];
}

function drawRanks(ranks) {
  const cells = ranks.map(([label, rank]) =>
    make(
      "div",
      { className: rank ? "rank-cell" : "rank-cell rank-none" },
      make("dt", {}, label),
      make("dd", {}, rank ? String(rank) : drawn("", "–"), rank ? "" : spoken("not found")),
    ),
  );
  return make("dl", { className: "ranks", "aria-label": "Rank in each column" }, ...cells);
}

function drawStep(step, steps, largest, asked) {
  const isLast = step.level + 1 === steps.length;
  const kind = isLast ? "Product" : `Step ${step.level + 1}`;
  const state = step.is_kept ? "kept" : "lost";
  const head = make(
    "div",
    { className: "step-head" },
    make("span", { className: "step-kind" }, kind),
    make("span", { className: `state state-${state}` }, drawn("", step.is_kept ? "✓ " : "✕ "), state),
    make("span", { className: "step-rank" }, showRank(step, isLast, asked)),
    make("span", { className: "score" }, spoken("score "), showScore(step.score)),
  );
  return make(
    "li",
    { className: `step step-${state}` },
    head,
    make("p", { className: isLast ? "node" : "node node-words", dir: "auto" }, step.name || "(no name)"),
    drawWeights(step, largest),
  );
}

function showRank(step, isLast, asked) {
  if (step.rank === null) return "not reached";
  const kept = isLast ? `; k ${asked.k}` : asked.beam && `; beam ${asked.beam}`;
  return `rank ${step.rank}${kept}`;
}

function drawWeights(step, largest) {
  const rows = step.words.slice(0, SHOWN);
  if (!rows.length) return make("p", { className: "hint" }, "No word of the query has a weight here.");
  return make("ul", { className: "weights" }, ...rows.map((row) => drawWeight(row, largest)));
}

function drawWeight({ word, weight }, largest) {
  const row = drawAmount(make("bdi", { className: "ngram" }, word), weight, largest);
  return make("li", {}, row);
}

/** A name, a bar and a number. */
function drawAmount(name, amount, largest) {
  const side = amount < 0 ? "against" : "for";
  const fill = make("span", { className: `fill fill-${side}` });
  fill.style.width = `${(100 * Math.abs(amount)) / largest}%`;
  return make(
    "div",
    { className: "weight" },
    name,
    make("span", { className: "bar", "aria-hidden": "true" }, fill),
    make("span", { className: "value" }, spoken(`${side} `), signed(amount)),
  );
}

function signed(number) {
  return `${number < 0 ? "−" : "+"}${Math.abs(number).toFixed(2)}`;
}
