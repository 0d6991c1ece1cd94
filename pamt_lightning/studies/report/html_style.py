"""The style sheet of the HTML report: for phones, screens, paper and dark rooms."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c6066; --page: #ffffff;
  --shade: #f3f4f6; --line: #d5d8dd; --link: #0b5c96; --warn: #8a4300; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e7e9; --soft: #a4a9b0; --page: #121212;
  --shade: #1e2023; --line: #3a3d42; --link: #7cbcf0; --warn: #f0a860; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1rem 1rem 4rem; max-width: 68rem; background: var(--page);
  color: var(--ink); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 1rem 0 .5rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.5rem 0 .75rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
p, ul { max-width: 46rem; }
a { color: var(--link); }
nav ul { padding: 0; margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .25rem 1.1rem;
  list-style: none; max-width: none; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1rem;
  margin: 1rem 0; }
dt { color: var(--soft); }
dd { margin: 0; }
figure { margin: 1.25rem 0 2rem; }
figcaption, .caption, .note { color: var(--soft); font-size: .875rem; line-height: 1.45; }
figcaption { max-width: 46rem; margin-top: .4rem; }
.note { margin: .5rem 0; }
.scroll { overflow-x: auto; margin: 0 0 .5rem; }
.scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.scroll svg { display: block; width: 100%; min-width: 38rem; max-width: 60rem; height: auto; }
@media (prefers-color-scheme: dark) { @media screen {
  .scroll svg { filter: invert(.93) hue-rotate(180deg); } } }
table { border-collapse: separate; border-spacing: 0; font-size: .8125rem; line-height: 1.125rem;
  font-variant-numeric: tabular-nums; margin: 1.25rem 0 0; }
caption { text-align: left; padding: 0 0 .5rem; }
.caption { display: block; position: sticky; left: 0; width: min(46rem, 100vw - 2rem); }
th, td { padding: .375rem .7rem; text-align: right; vertical-align: top; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--soft); vertical-align: bottom; white-space: normal; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--page);
  padding-left: 0; }
tbody th { font-weight: 600; }
tbody tr:hover > * { background: var(--shade); }
.reference > th { color: var(--warn); }
.line { display: block; }
.line + .line { color: var(--soft); }
.gap { display: block; color: var(--warn); font-style: italic; }
.text { white-space: normal; text-align: left; min-width: 15rem; }
strong { font-weight: 750; }
.alert { color: var(--warn); font-weight: 600; }
details { border: 1px solid var(--line); border-radius: .3rem; margin: .4rem 0; }
summary { cursor: pointer; padding: .4rem .7rem; overflow-wrap: anywhere; }
pre { margin: 0; padding: .6rem .7rem; overflow-x: auto; background: var(--shade);
  font: .8125rem/1.45 ui-monospace, Menlo, Consolas, monospace; }
@page { size: A4; margin: 16mm 14mm; }
@page wide { size: A4 landscape; margin: 14mm; }
@media print {
  :root { color-scheme: light; --ink: #000; --soft: #444; --page: #fff; --shade: #f3f4f6;
    --line: #bbb; --link: #000; --warn: #7a3b00; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  h2 { break-after: avoid; margin-top: 1.5rem; }
  figure, tr, caption { break-inside: avoid; }
  caption { break-after: avoid; }
  thead { display: table-header-group; break-after: avoid; }
  tbody tr:first-child { break-before: avoid; }
  .scroll { overflow: visible; }
  .scroll svg { min-width: 0; filter: none; }
  .caption { position: static; width: auto; }
  table { font-size: 7.5pt; line-height: 1.35; }
  th, td { padding: 2.2pt 5pt; }
  th:first-child { position: static; }
  .wide { page: wide; }
  .wide table { font-size: 6.5pt; }
  .wide th, .wide td { padding: 2pt 3pt; }
  .text { min-width: 0; }
}
"""
