// SPDX-License-Identifier: GPL-2.0
//! The report as one file that needs nothing else: plots inlined, legible in light and dark, wide and narrow.

use crate::plot::{GRID, INK, PAPER};
use plotters::style::RGBColor;
use pulldown_cmark::{Options, Parser, html};
use std::collections::BTreeMap;

pub fn page(
    markdown: &str,
    plots: &BTreeMap<String, String>,
    captions: &BTreeMap<String, String>,
) -> String {
    let mut body = String::new();
    html::push_html(&mut body, Parser::new_ext(markdown, Options::ENABLE_TABLES));
    for (name, svg) in plots {
        let caption = captions.get(name).map(String::as_str).unwrap_or_default();
        body = inline(&body, name, &label(svg, caption));
    }
    // A wide table scrolls by itself, and not the page.
    let body = body
        .replace("<table>", "<div class=\"wide\"><table>")
        .replace("</table>", "</table></div>");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>The lab's report</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        style()
    )
}

/// Puts the drawing where the paragraph with the image is.
fn inline(body: &str, name: &str, svg: &str) -> String {
    let start = format!("<p><img src=\"plots/{name}\"");
    let Some((before, rest)) = body.split_once(&start) else {
        return body.to_string();
    };
    let after = rest.split_once("</p>").map_or("", |(_, after)| after);
    format!("{before}<figure>{svg}</figure>{after}")
}

fn label(svg: &str, caption: &str) -> String {
    let caption = caption
        .replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;");
    svg.replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-label=\"{caption}\" "),
        1,
    )
}

fn hex(colour: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

/// The drawings' ink, paper and grid follow the page's colours.
fn style() -> String {
    let (ink, paper, grid) = (hex(INK), hex(PAPER), hex(GRID));
    format!(
        ":root {{ color-scheme: light dark; --ink: #1f2328; --paper: #ffffff; --grid: #d8dce0; --soft: #f3f5f7; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6e8ea; --paper: #15181c; --grid: #3a4047; --soft: #20252b; }}
}}
body {{ margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }}
main {{ max-width: 60rem; margin: 0 auto; padding: 1rem; }}
h1, h2 {{ line-height: 1.25; }}
h2 {{ margin-top: 2.5rem; border-bottom: 1px solid var(--grid); padding-bottom: .3rem; }}
code {{ background: var(--soft); padding: .1em .3em; border-radius: 3px; overflow-wrap: anywhere; }}
.wide, figure {{ overflow-x: auto; margin: 1rem 0; }}
table {{ border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }}
th, td {{ border-bottom: 1px solid var(--grid); padding: .35rem .7rem; vertical-align: top; }}
th {{ background: var(--soft); }}
td:not([style]) {{ min-width: 8rem; }}
svg {{ display: block; min-width: 40rem; max-width: 100%; height: auto; }}
svg [fill=\"{ink}\"] {{ fill: var(--ink); }}
svg [stroke=\"{ink}\"] {{ stroke: var(--ink); }}
svg [fill=\"{paper}\"] {{ fill: var(--paper); }}
svg [fill=\"{grid}\"] {{ fill: var(--grid); }}
svg [stroke=\"{grid}\"] {{ stroke: var(--grid); }}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_are_inlined_and_named() {
        let plots = BTreeMap::from([("a.svg".to_string(), "<svg width=\"1\"></svg>".to_string())]);
        let captions = BTreeMap::from([("a.svg".to_string(), "a \"b\" <c>".to_string())]);
        let page = page(
            "# t\n\n![x](plots/a.svg)\n\n| a |\n| --- |\n| 1 |\n",
            &plots,
            &captions,
        );
        assert!(!page.contains("<img"), "{page}");
        assert!(page.contains(
            "<figure><svg role=\"img\" aria-label=\"a &quot;b&quot; &lt;c>\" width=\"1\">"
        ));
        assert!(page.contains("<div class=\"wide\"><table>"));
        // Nothing is fetched.
        assert!(!page.contains("http"));
    }
}
