"""Style sheet of the HTML page: light and dark, wide and narrow, screen and print."""

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --faint: #666; --line: #d8d8d8;
  --panel: #f6f7f8; --candidate: #0072b2; --sky: #56b4e9; --behavior: #d55e00;
  --good: #00694d; --bad: #a83c00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #16181b; --faint: #a0a4a8;
  --line: #3a3e43; --panel: #1f2226; --candidate: #56b4e9; --sky: #0072b2; --behavior: #e69f00;
  --good: #2fc79a; --bad: #f0a060; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 58rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; margin: .8rem 0 .2rem; }
p { margin: .4rem 0; } .faint { color: var(--faint); font-size: .9rem; }
.verdict { background: var(--panel); border-left: 5px solid var(--candidate); padding: .8rem 1rem;
  margin: 1.2rem 0; border-radius: 4px; }
.verdict.good { border-color: var(--good); } .verdict.bad { border-color: var(--bad); }
.verdict strong { font-size: 1.15rem; } .verdict ul { margin: .3rem 0 0; padding-left: 1.2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } thead th { color: var(--faint);
  font-weight: 500; font-size: .9rem; } td.name, td.strong { font-weight: 600; }
  tr.faint td { color: var(--faint); }
.scroll { overflow-x: auto; } td:not(.name) { white-space: nowrap; }
dl { margin: .5rem 0; } dl div { display: grid; grid-template-columns: 11rem 12rem minmax(0, 1fr);
  gap: .1rem 1rem; padding: .35rem 0; border-bottom: 1px solid var(--line); }
dt { font-weight: 600; } dd { margin: 0; } dd:last-child { grid-column-end: -1; }
dd:not(.value) { color: var(--faint); } dt + dd:last-child { grid-column-start: 2; }
dl.about { background: var(--panel); border-radius: 4px; padding: .4rem 1rem; font-size: .9rem; }
dl.about div, dl.long div { grid-template-columns: 11rem minmax(0, 1fr); border: 0; }
dl.about dd { grid-column-start: 2; } dl.about dt { grid-row: span 2; }
dl.about dd.value { color: var(--ink); }
dl.long div { grid-template-columns: 16rem minmax(0, 1fr); border-bottom: 1px solid var(--line); }
dl.long dt { font-weight: 500; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; font-size: .85rem; margin: .2rem 0; }
.legend span { display: inline-flex; align-items: center; gap: .35rem; }
svg.sample { width: 30px; height: 14px; flex: none; } .narrow-only { display: none; }
.hover, .around { fill: transparent; stroke: none; pointer-events: all; }
.around { stroke: transparent; stroke-width: 11; }
.hover:hover { fill: var(--ink); fill-opacity: .08; }
.more.main { fill: var(--candidate); } .more.approximate { fill: var(--sky); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
figure { margin: 0; break-inside: avoid; } figcaption { font-size: .9rem; color: var(--faint); }
svg { width: 100%; height: auto; display: block; } svg text { font: 12px system-ui, sans-serif;
  fill: var(--faint); } .axis { stroke: var(--faint); fill: none; }
.grid { stroke: var(--line); fill: none; } .function { fill: none; stroke-width: 2; }
.function.behavior { stroke: var(--behavior); stroke-dasharray: 5 3; }
.function.candidate { stroke: var(--candidate); stroke-width: 2.5; }
.band { fill: var(--candidate); fill-opacity: .18; stroke: none; }
.mark { stroke: var(--ink); stroke-width: 1.6; fill: var(--paper); }
svg text.note { fill: var(--ink); paint-order: stroke;
  stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
.wide-chart { grid-column: 1 / -1; }
.line.candidate { stroke: var(--candidate); fill: none; stroke-width: 2.5; }
.equal { stroke: var(--faint); stroke-dasharray: 2 3; fill: none; }
.logged { stroke: var(--behavior); stroke-dasharray: 5 3; stroke-width: 1.5; fill: none; }
.bar { stroke-width: 7; fill: none; } .bar.main { stroke: var(--candidate); }
.bar.approximate { stroke: var(--sky); stroke-width: 4; }
.dot { fill: var(--paper); stroke-width: 2; } .dot.main { stroke: var(--candidate); }
.dot.approximate { stroke: var(--sky); }
.warnings li { margin: .3rem 0; } ul { padding-left: 1.2rem; }
@media (max-width: 60rem) { table.wide { font-size: .92rem; }
  table.wide th, table.wide td { padding: .35rem .3rem; } }
@media (max-width: 40rem) {
  body { padding: 1rem .8rem 2rem; } .charts { grid-template-columns: 1fr; }
  .wide-only { display: none; } .narrow-only { display: block; }
  dl div, dl.about div, dl.long div { display: block; }
  table.wide thead { position: absolute; left: -9999px; }
  table.wide tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  table.wide td { display: flex; justify-content: space-between; gap: 1rem; border: 0;
    padding: .1rem 0; }
  table.wide td::before { content: attr(data-label); color: var(--faint); font-size: .9rem; }
  table.wide td.name::before { content: none; } table.wide td:empty { display: none; }
}
@media print { :root { color-scheme: light; --ink: #000; --paper: #fff; --faint: #444;
  --line: #bbb; --panel: #fff; --candidate: #0072b2; --sky: #56b4e9; --behavior: #d55e00;
  --good: #00694d; --bad: #a83c00; }
  body { max-width: none; padding: 0; font-size: 11pt; } h2 { break-after: avoid; }
  .scroll { overflow: visible; } td:not(.name) { white-space: normal; }
  tr, li, dl div { break-inside: avoid; } h3 { break-after: avoid; }
  .charts { grid-template-columns: 1fr 1fr; } .wide-only { display: block; }
  .narrow-only { display: none; } }
"""
