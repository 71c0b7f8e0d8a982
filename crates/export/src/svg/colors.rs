//! Colours of frames: by kind, or from one of inferno's palettes.

use std::io;

use inferno::flamegraph::color::{BackgroundColor, MultiPalette, PaletteMap};
use inferno::flamegraph::{self, Palette};

use super::layout::PlacedFrame;
use crate::folded::Folded;
use crate::frame_kind::FrameKind;

/// Colours of a graph: [by kind](Colors::BY_KIND), or an inferno palette such as `hot`, `rust` or
/// `java`, parsed with [`str::parse`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Colors(Option<Palette>);

impl Colors {
    /// One hue per frame kind, distinguishable with a colour deficiency, and a shade per name.
    pub const BY_KIND: Colors = Colors(None);
}

/// Error for an unknown palette name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown palette {name:?}; valid palettes: kind, hot, mem, io, java, js, perl, python, rust, \
     wakeup, red, green, blue, aqua, yellow, purple or orange"
)]
pub struct UnknownPalette {
    /// The unknown name.
    pub name: String,
}

impl std::str::FromStr for Colors {
    type Err = UnknownPalette;

    fn from_str(name: &str) -> Result<Self, UnknownPalette> {
        match name {
            "kind" => Ok(Colors::BY_KIND),
            _ => (name.parse().map(|palette| Colors(Some(palette)))).map_err(|_| UnknownPalette {
                name: name.to_owned(),
            }),
        }
    }
}

pub(crate) type Rgb = [u8; 3];

const SHADES: usize = 64;

pub(super) struct FrameColors {
    shades: Vec<usize>,
    by_kind: [[Rgb; SHADES]; FrameKind::ALL.len()],
    by_palette: Option<Vec<[Rgb; FrameKind::ALL.len()]>>,
}

impl Colors {
    pub(super) fn are_by_kind(self) -> bool {
        self.0.is_none()
    }

    pub(super) fn page(self) -> (Palette, Option<BackgroundColor>) {
        match self.0 {
            Some(palette) => (palette, None),
            None => (Palette::default(), Some(BackgroundColor::Grey)),
        }
    }

    pub(super) fn of_frames(self, folded: &Folded, frames: &[PlacedFrame]) -> FrameColors {
        let names = folded.names();
        let (mut shades, mut by_palette) = (Vec::new(), None);
        match self.0 {
            None => shades = names.iter().map(|name| shade_of(name)).collect(),
            Some(palette) => by_palette = Some(by_palette_of(palette, names, frames)),
        }
        FrameColors {
            shades,
            by_kind: FrameKind::ALL.map(shades_of),
            by_palette,
        }
    }
}

impl FrameColors {
    pub(super) fn of(&self, frame: &PlacedFrame) -> Rgb {
        match (&self.by_palette, frame.name) {
            (Some(colors), Some(name)) => colors[name][frame.kind as usize],
            (None, Some(name)) => self.by_kind[frame.kind as usize][self.shades[name]],
            (_, None) => color_of(FrameKind::Thread),
        }
    }
}

pub(super) fn color_of(kind: FrameKind) -> Rgb {
    let (hue, saturation, lightness) = middle_of(kind);
    rgb(hue, saturation, lightness)
}

/// Returns hue in degrees, saturation and lightness. All suit black text.
fn middle_of(kind: FrameKind) -> (f32, f32, f32) {
    match kind {
        FrameKind::Thread => (35.0, 0.05, 0.92),
        FrameKind::User => (36.0, 0.92, 0.60),
        FrameKind::Inlined => (50.0, 0.90, 0.74),
        FrameKind::Kernel => (212.0, 0.75, 0.72),
        FrameKind::Jit => (140.0, 0.45, 0.52),
        FrameKind::Unnamed => (0.0, 0.0, 0.72),
        FrameKind::Waiting => (312.0, 0.80, 0.86),
        FrameKind::Idle => (120.0, 0.80, 0.84),
        FrameKind::WaitingForCpu => (318.0, 0.95, 0.69),
        FrameKind::Python => (157.0, 0.66, 0.55),
        FrameKind::JavaScript => (71.0, 0.94, 0.57),
        FrameKind::Java => (240.0, 0.95, 0.80),
    }
}

fn shades_of(kind: FrameKind) -> [Rgb; SHADES] {
    let (hue, saturation, lightness) = middle_of(kind);
    std::array::from_fn(|shade| {
        // -1 to 1 in eight steps.
        let [a, b] = [shade / 8, shade % 8].map(|step| step as f32 / 3.5 - 1.0);
        rgb(hue + 5.0 * a, saturation, lightness + 0.035 * b)
    })
}

/// Hashes the name with FNV-1a, as inferno does.
fn shade_of(name: &str) -> usize {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    (hash >> 32) as usize % SHADES
}

fn rgb(hue: f32, saturation: f32, lightness: f32) -> Rgb {
    let chroma = saturation * lightness.min(1.0 - lightness);
    [0.0, 8.0, 4.0].map(|n| {
        let k = (n + hue / 30.0).rem_euclid(12.0);
        let part = lightness - chroma * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (part * 255.0).round() as u8
    })
}

/// Looks up palette colours: inferno draws one stack with all names, and reports its colours.
fn by_palette_of(
    palette: Palette,
    names: &[String],
    frames: &[PlacedFrame],
) -> Vec<[Rgb; FrameKind::ALL.len()]> {
    let mut wanted: Vec<(usize, FrameKind)> = (frames.iter())
        .filter_map(|frame| Some((frame.name?, frame.kind)))
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut line = String::from("x");
    for (name, kind) in &wanted {
        line.push(';');
        line.push_str(&palette_name(palette, &names[*name], *kind));
    }
    // Without this frame, inferno could parse the end of a name as a second number.
    line.push_str(";x 1");
    let mut map = PaletteMap::default();
    let mut options = flamegraph::Options::default();
    options.colors = palette;
    options.deterministic = true;
    options.palette_map = Some(&mut map);
    let drawn = flamegraph::from_lines(&mut options, [line.as_str()], io::sink());
    debug_assert!(drawn.is_ok());
    let mut colors = vec![[[0; 3]; FrameKind::ALL.len()]; names.len()];
    for (name, kind) in wanted {
        let color = map.get(&palette_name(palette, &names[name], kind));
        if let Some(color) = color {
            colors[name][kind as usize] = [color.r, color.g, color.b];
        }
    }
    colors
}

/// Returns a name that makes inferno's palette recognize the frame's kind.
fn palette_name(palette: Palette, name: &str, kind: FrameKind) -> String {
    match palette {
        Palette::Multi(MultiPalette::Java)
            if matches!(kind, FrameKind::User | FrameKind::Thread) && !name.contains("::") =>
        {
            // A dot, a slash or a capital letter would make it a Java class: `copy.isra.0`.
            format!("_{}", name.replace(['.', '/'], "_"))
        }
        Palette::Multi(MultiPalette::Java | MultiPalette::Js | MultiPalette::Perl) => {
            format!("{name}{}", kind.annotation())
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Colour vision deficiencies, for linear light: Machado, Oliveira and Fernandes, "A
    /// Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, severity 1.
    const EYES: [(&str, [[f32; 3]; 3]); 4] = [
        ("all", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
        ),
        (
            "deuteranopia",
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
        ),
        (
            "tritanopia",
            [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
            ],
        ),
    ];

    fn linear(color: Rgb) -> [f32; 3] {
        color.map(|part| match f32::from(part) / 255.0 {
            low if low <= 0.04045 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        })
    }

    fn seen(eyes: &[[f32; 3]; 3], color: Rgb) -> [f32; 3] {
        let light = linear(color);
        eyes.map(|row| {
            let sum: f32 = row.iter().zip(light).map(|(a, b)| a * b).sum();
            sum.clamp(0.0, 1.0)
        })
    }

    fn lab([r, g, b]: [f32; 3]) -> [f32; 3] {
        let x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505;
        let y = 0.2126 * r + 0.7152 * g + 0.0722 * b;
        let z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089;
        let [x, y, z] = [x, y, z].map(|t| match t > 0.008856 {
            true => t.cbrt(),
            false => 7.787 * t + 16.0 / 116.0,
        });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn distance(a: [f32; 3], b: [f32; 3]) -> f32 {
        let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
        squares.sum::<f32>().sqrt()
    }

    #[test]
    fn kinds_are_told_apart_by_all_eyes() {
        for (name, eyes) in &EYES {
            for (at, a) in FrameKind::ALL.into_iter().enumerate() {
                for b in &FrameKind::ALL[at + 1..] {
                    let [x, y] = [a, *b].map(|kind| lab(seen(eyes, color_of(kind))));
                    let apart = distance(x, y);
                    // 2.3 is the just noticeable difference.
                    assert!(apart > 12.0, "{a:?} and {b:?}: {apart} with {name}");
                }
            }
        }
    }

    #[test]
    fn shades_of_a_kind_are_its_own_and_light_enough_for_black_text() {
        for kind in FrameKind::ALL {
            for shade in shades_of(kind) {
                let color = lab(linear(shade));
                let nearest = FrameKind::ALL.into_iter().min_by_key(|other| {
                    (distance(color, lab(linear(color_of(*other)))) * 1000.0) as u64
                });
                assert_eq!(nearest, Some(kind), "{shade:?}");
                // WCAG 2 contrast with black. Level AAA requires 7.
                let y = linear(shade);
                let luminance = 0.2126 * y[0] + 0.7152 * y[1] + 0.0722 * y[2];
                assert!((luminance + 0.05) / 0.05 > 7.0, "{kind:?} {shade:?}");
            }
        }
    }

    #[test]
    fn what_a_search_finds_is_told_from_all_frames_by_all_eyes() {
        let mut colors: Vec<(String, Rgb)> = (FrameKind::ALL.into_iter())
            .flat_map(|kind| shades_of(kind).map(|color| (format!("{kind:?}"), color)))
            .collect();
        let names: Vec<String> = (0..200).map(|n| format!("{n}::f{}", n * 7919)).collect();
        let frames: Vec<PlacedFrame> = (FrameKind::ALL.into_iter())
            .flat_map(|kind| (0..names.len()).map(move |name| (kind, name)))
            .map(|(kind, name)| PlacedFrame {
                name: Some(name),
                kind,
                depth: 1,
                start: 0,
                weight: 1,
                samples: 1,
                narrow: Default::default(),
            })
            .collect();
        let palettes = [
            "hot", "mem", "io", "java", "js", "perl", "python", "rust", "wakeup", "red", "green",
            "blue", "aqua", "yellow", "purple", "orange",
        ];
        for palette in palettes {
            let Colors(Some(known)) = palette.parse().unwrap() else {
                panic!("{palette} is no palette");
            };
            let all = by_palette_of(known, &names, &frames);
            colors.extend(all.into_iter().flatten().map(|c| (palette.to_owned(), c)));
        }
        for (eyes_name, eyes) in &EYES {
            let found = lab(seen(eyes, crate::svg::page::FOUND));
            for (name, color) in &colors {
                let apart = distance(found, lab(seen(eyes, *color)));
                assert!(apart > 20.0, "{name} {color:?}: {apart} with {eyes_name}");
            }
        }
    }

    #[test]
    fn hues_are_converted_as_css_does() {
        assert_eq!(rgb(0.0, 1.0, 0.5), [255, 0, 0]);
        assert_eq!(rgb(120.0, 1.0, 0.25), [0, 128, 0]);
        assert_eq!(rgb(210.0, 0.5, 0.5), [64, 128, 191]);
    }
}
