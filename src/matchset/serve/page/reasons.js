/** Reasons: why does the query find the product, or where was the product lost? */

import { byId, drawn, make, showScore, spoken } from "./dom.js";

const SHOWN = 8; // n-grams for, and as many against
const HINT =
  "Each bar shows what one n-gram of the query adds (# is a space). A product's score is the " +
  "scores along its path, multiplied.";
const FILTER_HINT = "Ranks along the path ignore the filter.";

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
  byId("reasons-title").textContent = reasons.product.title || reasons.product.id;
  byId("reasons-id").textContent = reasons.product.id;
  const { steps } = reasons;
  const weights = steps.flatMap((step) => [...step.for, ...step.against]);
  const largest = Math.max(1e-9, ...weights.map(({ weight }) => Math.abs(weight)));
  byId("reasons-body").replaceChildren(
    drawVerdict(reasons, asked),
    drawRanks(ranks),
    make("h3", {}, "Path through the tree"),
    make("ol", { className: "steps" }, ...steps.map((step) => drawStep(step, steps, largest, asked))),
    make("p", { className: "hint" }, asked.where ? `${HINT} ${FILTER_HINT}` : HINT),
  );
}

function drawVerdict(reasons, asked) {
  const score = `Score ${showScore(reasons.score)}`;
  if (reasons.is_returned) {
    const text = `Found at rank ${reasons.rank}. ${score}.`;
    return make("p", { className: "verdict verdict-found" }, drawn("", "✓ "), text);
  }
  const text = `Not in the results: ${explainLoss(reasons, asked)}. ${score} if it had not been lost.`;
  return make("p", { className: "verdict verdict-lost" }, drawn("", "✕ "), text);
}

function explainLoss(reasons, asked) {
  const { steps } = reasons;
  if (!reasons.is_allowed) return "the filter excludes it";
  const lost = steps.findIndex((step) => !step.in_beam);
  if (lost < 0) return "other products rank higher";
  const isLast = lost + 1 === steps.length;
  const rule = isLast ? `k keeps ${asked.k}` : `the beam keeps ${asked.beam || "fewer"}`;
  return `lost at step ${lost + 1} of ${steps.length}, where its rank was ${steps[lost].rank} and ${rule}`;
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
  const state = step.in_beam ? "kept" : "lost";
  const head = make(
    "div",
    { className: "step-head" },
    make("span", { className: "step-kind" }, kind),
    make("span", { className: `state state-${state}` }, drawn("", step.in_beam ? "✓ " : "✕ "), state),
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
  const rows = [...step.for.slice(0, SHOWN), ...step.against.slice(0, SHOWN)];
  if (!rows.length) return make("p", { className: "hint" }, "No n-gram of the query has a weight here.");
  return make("ul", { className: "weights" }, ...rows.map((row) => drawWeight(row, largest)));
}

function drawWeight({ ngram, weight }, largest) {
  const side = weight < 0 ? "against" : "for";
  const fill = make("span", { className: `fill fill-${side}` });
  fill.style.width = `${(100 * Math.abs(weight)) / largest}%`;
  const value = `${weight < 0 ? "−" : "+"}${Math.abs(weight).toFixed(2)}`;
  return make(
    "li",
    { className: "weight" },
    make("bdi", { className: "ngram" }, ngram),
    make("span", { className: "bar", "aria-hidden": "true" }, fill),
    make("span", { className: "value" }, spoken(`${side} `), value),
  );
}
