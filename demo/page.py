"""The template of the demo's report: HTML with `{when}`, `{verdict}`, `{tiles}` and `{body}`."""

_STYLE = """
:root { color-scheme: light dark; --bg: #f6f7f9; --card: #fff; --ink: #1a2230; --soft: #5b6678;
  --edge: #dfe4ec; --grid: #e8ecf2; --s0: #2563c9; --s1: #d2571b; --s2: #17876d; --good: #17774a;
  --bad: #b3261e; --b3: #8a5bc7; --b4: #b98900; --b5: #6b7789; }
@media (prefers-color-scheme: dark) { :root { --bg: #11151c; --card: #1a202a; --ink: #e6eaf1;
  --soft: #9aa6b8; --edge: #2d3644; --grid: #28303c; --s0: #6ea8ff; --s1: #ff9b62; --s2: #4fd1ae;
  --good: #5fd39a; --bad: #ff8a80; --b3: #b794f0; --b4: #e3b740; --b5: #8b97aa; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 36px 24px 60px; }
h1 { font-size: 28px; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 19px; margin: 0 0 10px; }
h3 { font-size: 15px; margin: 18px 0 8px; }
h3 small, .when, figcaption, .tile span { color: var(--soft); font-weight: 400; }
p { margin: 0 0 10px; }
section, .tile { background: var(--card); border: 1px solid var(--edge); border-radius: 12px; }
section { padding: 20px 24px; margin-top: 18px; }
.verdict { margin: 14px 0 0; font-weight: 600; }
.verdict ul { font-weight: 400; margin: 6px 0; white-space: pre-wrap; }
.good { color: var(--good); } .bad { color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px;
  margin-top: 18px; }
.tile { padding: 14px 16px; }
.tile b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; }
.tile span { font-size: 13px; }
figure { margin: 0; } figcaption { font-size: 13px; margin: 4px 0 10px; }
.strip { display: grid; grid-template-columns: repeat(4, 1fr); gap: 12px; }
.strip img { display: block; width: 100%; border-radius: 8px; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 20px; align-items: end; }
@media (max-width: 760px) { .strip, .pair { grid-template-columns: 1fr 1fr; }
  .pair { grid-template-columns: 1fr; } }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
svg text.axis { font-size: 12.5px; }
.grid { stroke: var(--grid); fill: none; }
.line { fill: none; stroke-width: 1.5; opacity: 0.75; }
.dots { fill: none; stroke-linecap: round; }
.s0 { stroke: var(--s0); } .s1 { stroke: var(--s1); } .s2 { stroke: var(--s2); }
.bar { fill: var(--s0); } .mark { stroke: var(--s1); stroke-dasharray: 4 3; fill: none; }
.legend span { margin-right: 18px; } .legend span::before { content: "\\25CF\\00A0"; }
.legend .s0 { color: var(--s0); } .legend .s1 { color: var(--s1); }
.legend .s2 { color: var(--s2); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 7px 14px 7px 0; border-bottom: 1px solid var(--edge);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 500; } tr:last-child td { border-bottom: 0; }
.n { text-align: right; font-variant-numeric: tabular-nums; }
.blocks { display: flex; gap: 2px; height: 26px; margin-bottom: 12px; }
.blocks i { border-radius: 3px; } .key { display: inline-block; width: 10px; height: 10px;
  border-radius: 2px; margin-right: 8px; }
.b0 { background: var(--s0); } .b1 { background: var(--s1); } .b2 { background: var(--s2); }
.b3 { background: var(--b3); } .b4 { background: var(--b4); } .b5 { background: var(--b5); }
"""

PAGE = (
    """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>robocache demo</title><style>"""
    + _STYLE.replace("{", "{{").replace("}", "}}")
    + """</style></head><body><main>
<header><h1>robocache demo</h1>
<div class="when">A policy gets every stream at the same instants, in one tensor per tick.
{when}</div>{verdict}</header>
<div class="tiles">{tiles}</div>{body}
</main></body></html>
"""
)
