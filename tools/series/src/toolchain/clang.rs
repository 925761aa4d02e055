// SPDX-License-Identifier: GPL-2.0
//! LLVM's programs, bindgen, and the libclang through which bindgen reads C.

use super::Toolchain;
use super::fix::Fix;
use super::probe::{is_program, path_from, version_of, which};
use super::table::{Row, Status, at};
use crate::files::name;
use crate::opts::Opts;
use crate::requirements::{Requirement, Version};
use crate::step::{Ctx, output};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The LLVM that is installed when there is none.
const LLVM: &str = "-22";

/// $LLVM; else the newest that is installed whole enough to have a clang; else what would be installed.
pub fn llvm(opts: &Opts) -> String {
    match &opts.llvm {
        Some(llvm) if llvm.starts_with('-') || llvm.ends_with('/') => llvm.clone(),
        // As in the kernel's Makefile: a number alone is no suffix.
        Some(_) => "1".into(),
        None => (17..=22)
            .rev()
            .map(|n| format!("-{n}"))
            .find(|suffix| which(&format!("clang{suffix}")).is_some())
            .unwrap_or_else(|| LLVM.into()),
    }
}

pub fn llvm_tool(llvm: &str, tool: &str) -> String {
    if llvm.ends_with('/') {
        format!("{llvm}{tool}")
    } else if llvm.starts_with('-') {
        format!("{tool}{llvm}")
    } else {
        tool.to_string()
    }
}

pub fn llvm_piece(opts: &Opts, r: &Requirement, row: &mut Row, llvm: &str) {
    let tool = match r.name {
        "lld" => "ld.lld",
        "llvm" => "llvm-ar",
        other => other,
    };
    let name = llvm_tool(llvm, tool);
    if let Some(path) = which(&name) {
        row.judge(r, version_of(&path).as_ref(), &path);
    }
    // Only a suffix that is new enough names packages.
    let suffix = llvm.strip_prefix('-').and_then(Version::find);
    let packaged =
        suffix.is_some_and(|v| r.minimum.as_ref().is_some_and(|m| v.major() >= m.major()));
    row.fix = match &opts.llvm {
        Some(l) if !packaged => Fix::Say(format!(
            "LLVM={l} has no fitting {name}: leave LLVM out, or name another"
        )),
        _ => Fix::Packages(vec![format!("{}{llvm}", r.name)]),
    };
}

/// Older ones take what they read through libclang 22 for opaque, see scripts/rust_is_available.sh.
const BINDGEN_FOR_22: &str = "0.72.1";

pub fn bindgen(ctx: &Ctx, opts: &Opts, r: &Requirement, row: &mut Row, tools: &mut Toolchain) {
    let mut r = r.clone();
    let clang = which(&llvm_tool(&tools.llvm, "clang")).and_then(|c| version_of(&c));
    if clang.is_none_or(|v| v.major() >= 22) {
        r.minimum = Version::find(BINDGEN_FOR_22);
        row.needed = format!(">= {BINDGEN_FOR_22}, libclang is 22");
    }
    let r = &r;
    let places = match &opts.bindgen {
        Some(own) => vec![which(&own.to_string_lossy())],
        None => vec![
            which("bindgen"),
            env::var_os("HOME").map(|home| Path::new(&home).join(".cargo/bin/bindgen")),
            Some(ctx.cache.join("bindgen/bin/bindgen")),
        ],
    };
    let places = places.into_iter().flatten().filter(|p| is_program(p));
    let seen: Vec<_> = places.map(|p| (version_of(&p), p)).collect();
    let best = seen.iter().find(|(v, _)| *v >= r.minimum);
    if let Some((version, path)) = best.or(seen.first()) {
        row.judge(r, version.as_ref(), path);
        tools.bindgen = path.clone();
    }
    if let Some(own) = &opts.bindgen {
        row.fix = Fix::Say(format!(
            "BINDGEN={} does not fit: leave BINDGEN out, or name another",
            own.display()
        ));
    } else if row.fix == Fix::Packages(Vec::new()) || !seen.is_empty() {
        // Debian has none new enough; and a package does not replace one that is earlier in PATH.
        row.fix = Fix::CargoBindgen;
    }
}

/// The libclang that bindgen really loads: asked from bindgen itself, as the kernel does.
pub fn libclang(ctx: &Ctx, opts: &Opts, row: &mut Row, tools: &mut Toolchain) {
    let clang = which(&llvm_tool(&tools.llvm, "clang")).and_then(|c| version_of(&c));
    if let Some(v) = &clang {
        row.needed = format!("{}, >= {v}", v.major());
    }
    let (place, fix) = match &opts.libclang_path {
        Some(own) => {
            let text = "does not fit: leave it out, or name another";
            let text = format!("LIBCLANG_PATH={} {text}", own.display());
            (own.clone(), Fix::Say(text))
        }
        None => {
            let fix = if tools.llvm.starts_with('-') {
                Fix::Packages(vec![format!("libclang{}-dev", tools.llvm)])
            } else {
                Fix::Say("none found for that LLVM: LIBCLANG_PATH=<its folder>".into())
            };
            let place = libdir(&tools.llvm, clang.as_ref());
            (place.unwrap_or_default(), fix)
        }
    };
    row.fix = fix;
    tools.libclang_path = place;
    let Some(file) = library_file(&tools.libclang_path) else {
        return;
    };
    let loaded = loaded_libclang(ctx, &tools.bindgen, &tools.libclang_path);
    row.found = at(loaded.as_ref(), &file);
    row.status = match (loaded, clang) {
        (Some(v), Some(clang)) if v.major() != clang.major() => {
            Status::Wrong(format!("NOT CLANG'S MAJOR {}", clang.major()))
        }
        (Some(v), Some(clang)) if v < clang => Status::Wrong(format!("OLDER THAN CLANG {clang}")),
        _ => Status::Fits,
    };
}

fn libdir(llvm: &str, clang: Option<&Version>) -> Option<PathBuf> {
    let config = which(&llvm_tool(llvm, "llvm-config"));
    let said = config.map(|c| path_from(&c, &["--libdir"]));
    let debian = clang.map(|v| PathBuf::from(format!("/usr/lib/llvm-{}/lib", v.major())));
    [said, debian]
        .into_iter()
        .flatten()
        .find(|d| library_file(d).is_some())
}

fn library_file(dir: &Path) -> Option<PathBuf> {
    fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|e| e.path())
        .filter(|p| {
            let name = name(p);
            name.starts_with("libclang.so")
                || (name.starts_with("libclang-") && name.contains(".so"))
        })
        .min()
}

fn loaded_libclang(ctx: &Ctx, bindgen: &Path, place: &Path) -> Option<Version> {
    let temp = ctx.temp("libclang").ok()?;
    let file = temp.path().join("version.h");
    let text = "#pragma message(\"clang version \" __clang_version__)\n";
    fs::write(&file, text).ok()?;
    let out = output(Command::new(bindgen).arg(&file).env("LIBCLANG_PATH", place)).ok()?;
    let text = String::from_utf8_lossy(&out.stderr);
    Version::find(text.split("clang version").nth(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llvm_names() {
        assert_eq!(llvm_tool("-22", "ld.lld"), "ld.lld-22");
        assert_eq!(llvm_tool("/opt/llvm/bin/", "clang"), "/opt/llvm/bin/clang");
        assert_eq!(llvm_tool("1", "clang"), "clang");
    }
}
