"""How a report looks: black on white, one column on a phone, two or three on a desk."""

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; }
header, main, footer { max-width: 76rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1.5rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; padding-bottom: .2rem; border-bottom: 2px solid #0072b2; }
p { margin: .4rem 0; max-width: 48rem; overflow-wrap: anywhere; }
.grid { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); }
figure { margin: 0; }
img { display: block; width: 100%; max-width: 36rem; height: auto; }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { padding: .25rem .9rem .25rem 0; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top; }
td { overflow-wrap: anywhere; min-width: 4rem; }
td:first-child { overflow-wrap: break-word; min-width: 6rem; }
thead th { border-bottom: 2px solid #777; vertical-align: bottom; }
.number { text-align: right; }
td.number { white-space: nowrap; }
footer { padding: 2rem 1rem; color: #555; font-size: .85rem; }
@media print { section { break-inside: avoid; } }
"""
