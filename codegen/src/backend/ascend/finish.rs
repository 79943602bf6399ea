//! The end of a class: variables that its parts need, buffers that they share, and what all of it takes.

use std::collections::BTreeSet;

use fusewright_templates::ascend as template;

use super::EmitError;
use super::memory::Touched;
use super::queues;
use super::segment::{Made, Writer};
use super::text;
use crate::kernel::{INNER, ROW};

/// Whether a line is no declaration that stands above already.
fn is_new(line: &str, declared: &mut BTreeSet<String>) -> bool {
    !line.starts_with("const ") || declared.insert(line.to_owned())
}

impl Writer<'_> {
    /// The class with everything in it.
    pub fn finish(mut self) -> Made<template::Segment> {
        // What the end of a row does is no part of its tiles.
        let tile = self.out.finish.is_empty().then(|| self.tiled.head());
        // After the last tile of a pass comes the start of the next row.
        let again = if self.out.passes { self.fixed.head() } else { Touched::default() };
        self.tiled.finish(tile.clone().map(|tile| tile.and(again)).as_ref());
        self.fixed.finish(tile.as_ref());
        self.out.figures = self.figures();
        self.out.start = std::mem::take(&mut self.fixed.lines);
        self.out.body = std::mem::take(&mut self.tiled.lines);
        self.out.work = self.work.bytes;
        self.out.kept_bytes = self.kept.bytes;
        let mut declared = BTreeSet::new();
        self.out.copy_in.retain(|line| is_new(line, &mut declared));
        declared.clear();
        for store in &mut self.out.stores {
            store.copies.retain(|line| is_new(line, &mut declared));
        }
        declared.clear();
        self.out.body.retain(|line| is_new(line, &mut declared));
        queues::share(&mut self.out);
        let single = self.tile.is_single();
        let varies = [(ROW, single || self.tile.rows == 1), (INNER, single || self.tile.inners == 1)];
        let copy_out: Vec<String> = self.out.stores.iter().flat_map(|s| s.copies.iter().cloned()).collect();
        for (name, own) in varies.into_iter().filter(|(_, own)| *own) {
            let line = format!("const int64_t {name} = tile.{name};");
            for part in [&mut self.out.copy_in, &mut self.out.body] {
                if own && part.iter().any(|l| text::mentions_variable(l, name)) {
                    part.insert(0, line.clone());
                }
            }
            if copy_out.iter().any(|l| text::mentions_variable(l, name)) {
                self.out.rows_out.push(line);
            }
        }
        let mentioned = |out: &template::Segment, name: &str| {
            let lines = [&out.start, &out.copy_in, &out.body, &copy_out];
            lines.into_iter().flatten().any(|l| text::mentions(l, name)) || text::mentions(&out.inner, name)
        };
        let dims = std::mem::take(&mut self.out.dims);
        self.out.dims = dims.into_iter().filter(|d| mentioned(&self.out, d)).collect();
        let kept = std::mem::take(&mut self.out.kept);
        let (kept, local): (Vec<_>, Vec<_>) = kept
            .into_iter()
            .partition(|k| self.out.body.iter().chain(&self.out.copy_in).any(|l| text::mentions(l, &k.tensor)));
        self.out.kept = kept;
        for line in &mut self.out.start {
            let own = local.iter().find(|k| line.starts_with(&format!("{} = ", k.tensor)));
            if let Some(own) = own {
                *line = format!("LocalTensor<{}> {line}", own.element);
            }
        }
        let params = self.params;
        self.out.buffers.sort_by_key(|b| params.iter().position(|p| *p == b.name));
        let needs = self.out.buffer_bytes();
        if needs > self.chip.buffer_bytes {
            let what = format!(
                "{needs} bytes of unified buffer with {} tiles in flight: {} has {}",
                self.out.depth, self.chip.vendor, self.chip.buffer_bytes
            );
            return Err(EmitError::TooLarge(what));
        }
        Ok(self.out)
    }
}
