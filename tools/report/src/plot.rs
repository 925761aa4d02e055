// SPDX-License-Identifier: GPL-2.0
//! Line plots as SVG. Colours are told apart by the colour-blind too (Okabe and Ito); lines that lie on each other stay
//! visible, as each is thinner than the one below it.

use crate::text::thousands;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: u32 = 880;
const PANEL_HEIGHT: u32 = 290;
const LEGEND_ROW: u32 = 24;
/// The three that the page replaces in the dark; see `html.rs`.
pub const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
pub const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);
pub const GRID: RGBColor = RGBColor(0xd8, 0xdc, 0xe0);
const COLOURS: [RGBColor; 7] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x80, 0x80, 0x80),
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stroke {
    Solid,
    /// What was not measured.
    Dashed,
}

#[derive(Clone, Debug)]
pub struct Line {
    pub label: String,
    pub stroke: Stroke,
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    pub x: String,
    pub y: String,
    pub lines: Vec<Line>,
    /// The top of the y axis, if it does not follow from the data.
    pub top: Option<f64>,
}

#[derive(Clone, Debug)]
pub struct Plot {
    /// Of the file.
    pub name: String,
    /// What there is to see, for who cannot.
    pub caption: String,
    pub columns: usize,
    pub panels: Vec<Panel>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The text of the SVG file.
pub fn svg(plot: &Plot) -> Result<String> {
    let mut out = String::new();
    draw(plot, &mut out).map_err(|e| anyhow!("cannot draw {}: {e}", plot.name))?;
    // Fonts without a hint look alike on no two systems.
    Ok(out.replace(
        "font-family=\"sans-serif\"",
        "font-family=\"system-ui, 'DejaVu Sans', sans-serif\"",
    ))
}

fn draw(plot: &Plot, out: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let rows = plot.panels.len().div_ceil(plot.columns) as u32;
    let labels = labels(plot);
    let places = legend(&labels);
    let legend_height = match places.last() {
        Some(&(_, row)) if !titled(plot) => (row + 1) * LEGEND_ROW + 6,
        _ => 0,
    };
    let size = (WIDTH, rows * PANEL_HEIGHT + legend_height);
    let root = SVGBackend::with_string(out, size).into_drawing_area();
    root.fill(&PAPER)?;
    let (top, rest) = root.split_vertically(legend_height);
    if legend_height > 0 {
        for (i, (label, stroke)) in labels.iter().enumerate() {
            key(&top, label, colour(&labels, label), *stroke, places[i])?;
        }
    }
    let areas = rest.split_evenly((rows as usize, plot.columns));
    for (area, panel) in areas.iter().zip(&plot.panels) {
        draw_panel(area, panel, &labels)?;
    }
    root.present()?;
    Ok(())
}

/// Whether each panel holds one line, and says so itself.
fn titled(plot: &Plot) -> bool {
    let one = |p: &Panel| matches!(&p.lines[..], [line] if line.label == p.title);
    plot.panels.iter().all(one)
}

/// Of all panels, each once, in the order of appearance.
fn labels(plot: &Plot) -> Vec<(String, Stroke)> {
    let mut out: Vec<(String, Stroke)> = Vec::new();
    for line in plot.panels.iter().flat_map(|p| &p.lines) {
        if !out.iter().any(|(l, _)| *l == line.label) {
            out.push((line.label.clone(), line.stroke));
        }
    }
    out
}

/// An arm has the same colour in every plot.
fn colour(labels: &[(String, Stroke)], label: &str) -> RGBColor {
    let fixed = ["base", "c", "rust", "refault-blind"];
    let family = |l: &str| {
        let l = l.strip_suffix("-counted").unwrap_or(l);
        fixed.iter().position(|f| *f == l)
    };
    let index = family(label).unwrap_or_else(|| {
        let others = labels.iter().filter(|(l, _)| family(l).is_none());
        let nth = others.map(|(l, _)| l).take_while(|l| *l != label).count();
        let any_arm = labels.iter().any(|(l, _)| family(l).is_some());
        if any_arm { fixed.len() + nth } else { nth }
    });
    COLOURS[index.min(COLOURS.len() - 1)]
}

fn text_width(text: &str) -> u32 {
    text.chars().count() as u32 * 8
}

/// (x, row) of each label.
fn legend(labels: &[(String, Stroke)]) -> Vec<(u32, u32)> {
    let (mut x, mut row) = (64, 0);
    let mut out = Vec::new();
    for (label, _) in labels {
        let width = 44 + text_width(label) + 24;
        if x + width > WIDTH && x > 64 {
            (x, row) = (64, row + 1);
        }
        out.push((x, row));
        x += width;
    }
    out
}

fn words(size: u32, at: Pos) -> TextStyle<'static> {
    // The SVG backend divides by 1.24.
    let size = f64::from(size) * 1.24;
    ("sans-serif", size).into_font().color(&INK).pos(at)
}

fn key(
    area: &Area,
    label: &str,
    colour: RGBColor,
    stroke: Stroke,
    (x, row): (u32, u32),
) -> Result<(), Box<dyn std::error::Error>> {
    let (x, y) = (x as i32, (row * LEGEND_ROW + LEGEND_ROW / 2 + 4) as i32);
    match stroke {
        Stroke::Solid => area.draw(&PathElement::new(
            [(x, y), (x + 34, y)],
            colour.stroke_width(4),
        ))?,
        Stroke::Dashed => {
            for dash in [0, 13, 26] {
                let ends = [(x + dash, y), (x + dash + 8, y)];
                area.draw(&PathElement::new(ends, colour.stroke_width(3)))?;
            }
        }
    }
    area.draw_text(
        label,
        &words(14, Pos::new(HPos::Left, VPos::Center)),
        (x + 44, y),
    )?;
    Ok(())
}

fn draw_panel(
    area: &Area,
    panel: &Panel,
    labels: &[(String, Stroke)],
) -> Result<(), Box<dyn std::error::Error>> {
    let (width, _) = area.dim_in_pixel();
    let middle = Pos::new(HPos::Center, VPos::Center);
    area.draw_text(&panel.title, &words(15, middle), (width as i32 / 2, 14))?;
    let points = || panel.lines.iter().flat_map(|l| &l.points);
    let left = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let right = points().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
    if !left.is_finite() {
        return Ok(());
    }
    let right = if right > left { right } else { left + 1.0 };
    let highest = points().map(|p| p.1).fold(0.0, f64::max);
    let top = panel
        .top
        .unwrap_or(if highest > 0.0 { highest * 1.06 } else { 1.0 });
    let mut chart = ChartBuilder::on(area)
        .margin_top(28)
        .margin_right(18)
        .margin_bottom(6)
        .margin_left(6)
        .x_label_area_size(46)
        .y_label_area_size(if top >= 100_000.0 { 88 } else { 70 })
        .build_cartesian_2d(left..right, 0.0..top)?;
    let whole = |v: &f64| match v {
        v if v.fract().abs() > 1e-9 => format!("{v:.1}"),
        v => thousands(*v as i64),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .x_desc(&panel.x)
        .y_desc(&panel.y)
        .x_labels(if width < 400 { 5 } else { 8 })
        .y_labels(6)
        .x_label_formatter(&whole)
        .y_label_formatter(&whole)
        .label_style(words(12, middle))
        .axis_desc_style(words(13, middle))
        .draw()?;
    let count = panel.lines.len() as u32;
    for (i, line) in panel.lines.iter().enumerate() {
        let colour = colour(labels, &line.label);
        let thickness = 2 + 7 * (count - 1 - i as u32).min(3) / 2;
        let points = line.points.iter().copied();
        match line.stroke {
            Stroke::Solid => {
                chart.draw_series(LineSeries::new(
                    points.clone(),
                    colour.stroke_width(thickness),
                ))?;
                // A round or two is no line.
                if line.points.len() <= 12 {
                    let size = (thickness / 2 + 2) as i32;
                    chart.draw_series(points.map(|p| Circle::new(p, size, colour.filled())))?;
                }
            }
            Stroke::Dashed => {
                let style = colour.stroke_width(3);
                chart.draw_series(DashedLineSeries::new(points, 8, 5, style))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(labels: &[&str]) -> Plot {
        let line = |label: &&str| Line {
            label: label.to_string(),
            stroke: Stroke::Solid,
            points: vec![(0.0, 1.0), (1.0, 3.0)],
        };
        Plot {
            name: "p".into(),
            caption: "c".into(),
            columns: 1,
            panels: vec![Panel {
                title: "a < b".into(),
                x: "round".into(),
                y: "faults".into(),
                lines: labels.iter().map(line).collect(),
                top: None,
            }],
        }
    }

    #[test]
    fn drawn_the_same_twice_and_well_formed() {
        let one = svg(&plot(&["base", "rust"])).unwrap();
        assert_eq!(one, svg(&plot(&["base", "rust"])).unwrap());
        assert!(one.starts_with("<svg ") && one.trim_end().ends_with("</svg>"));
        assert!(one.contains("a &lt; b"));
        assert!(one.contains("#D55E00") && one.contains("#009E73"));
    }

    #[test]
    fn nothing_to_draw_is_no_panic() {
        svg(&plot(&[])).unwrap();
        let mut empty = plot(&["base"]);
        empty.panels[0].lines[0].points.clear();
        svg(&empty).unwrap();
        empty.panels[0].lines[0].points = vec![(5.0, 0.0)];
        svg(&empty).unwrap();
    }

    #[test]
    fn a_long_legend_wraps() {
        let labels: Vec<(String, Stroke)> = (0..9)
            .map(|i| (format!("a label of some length {i}"), Stroke::Solid))
            .collect();
        let places = legend(&labels);
        assert!(places.iter().all(|(x, _)| *x < WIDTH - 200));
        assert!(places.last().unwrap().1 >= 2);
    }
}
