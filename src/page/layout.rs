//! Places the boxes of an acyclic graph in layers: data runs downwards, and long edges pass between boxes, not under
//! them.
//!
//! The usual three steps: a layer per longest path, an order within layers by the mean of neighbours, then positions
//! that follow neighbours as far as boxes do not overlap. An edge over several layers bends once in each; the edges of
//! one source share their bends.

use std::collections::{BTreeMap, BTreeSet};

const GAP_X: i64 = 22;
const GAP_Y: i64 = 40;
const MARGIN: i64 = 12;
const BEND_WIDTH: i64 = 6;
const SWEEPS: usize = 6;

/// Where boxes and edges lie, in pixels.
pub(super) struct Layout {
    pub width: i64,
    pub height: i64,
    /// Upper left corner per box.
    pub boxes: Vec<(i64, i64)>,
    /// SVG paths, each drawn once.
    pub edges: Vec<String>,
}

/// A box or a bend.
struct Item {
    width: i64,
    layer: usize,
    /// Middle.
    x: i64,
    above: Vec<usize>,
    below: Vec<usize>,
}

/// Places boxes of the given `(width, height)` right of a gutter; edges lead from lower to higher indices.
pub(super) fn layout(sizes: &[(i64, i64)], edges: &BTreeSet<(usize, usize)>, gutter: i64) -> Layout {
    let mut items = boxes(sizes, edges);
    bend(&mut items, edges);
    let mut layers = vec![Vec::new(); items.iter().map(|i| i.layer + 1).max().unwrap_or(0)];
    for (id, item) in items.iter().enumerate() {
        layers[item.layer].push(id);
    }
    for sweep in 0..SWEEPS {
        let downwards = sweep % 2 == 0;
        let last = layers.len();
        for step in 0..last {
            let layer = &mut layers[if downwards { step } else { last - 1 - step }];
            arrange(&mut items, layer, downwards);
        }
    }
    let left = items.iter().map(|i| i.x - i.width / 2).min().unwrap_or(0);
    for item in &mut items {
        item.x += MARGIN + gutter - left;
    }
    let (tops, heights) = rows(sizes, &items, layers.len());
    Layout {
        width: items.iter().map(|i| i.x + i.width / 2).max().unwrap_or(0) + MARGIN,
        height: tops.last().zip(heights.last()).map_or(0, |(top, height)| top + height) + MARGIN,
        boxes: (0..sizes.len()).map(|i| (items[i].x - sizes[i].0 / 2, tops[items[i].layer])).collect(),
        edges: paths(sizes, &items, &tops, &heights),
    }
}

/// The boxes on layers by their longest path from a source; sources lie just above what reads them.
fn boxes(sizes: &[(i64, i64)], edges: &BTreeSet<(usize, usize)>) -> Vec<Item> {
    let mut layer = vec![0; sizes.len()];
    for &(from, to) in edges {
        layer[to] = layer[to].max(layer[from] + 1);
    }
    for v in 0..sizes.len() {
        let nearest = edges.range((v, 0)..(v + 1, 0)).map(|&(_, to)| layer[to]).min();
        if let Some(nearest) = nearest
            && !edges.iter().any(|&(_, to)| to == v)
        {
            layer[v] = nearest - 1;
        }
    }
    let item = |(&(width, _), layer)| Item { width, layer, x: 0, above: Vec::new(), below: Vec::new() };
    sizes.iter().zip(layer).map(item).collect()
}

/// Links boxes through bends, one per layer that lies between, shared by the edges of a source.
fn bend(items: &mut Vec<Item>, edges: &BTreeSet<(usize, usize)>) {
    let mut bends: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for &(from, to) in edges {
        let mut last = from;
        for layer in items[from].layer + 1..items[to].layer {
            let next = *bends.entry((from, layer)).or_insert_with(|| {
                items.push(Item { width: BEND_WIDTH, layer, x: 0, above: vec![last], below: Vec::new() });
                items.len() - 1
            });
            if !items[last].below.contains(&next) {
                items[last].below.push(next);
            }
            last = next;
        }
        items[last].below.push(to);
        items[to].above.push(last);
    }
}

/// Orders a layer by the mean of its neighbours on one side and moves its items as near to it as they fit.
fn arrange(items: &mut [Item], layer: &mut [usize], downwards: bool) {
    let wish = |id: usize| {
        let item = &items[id];
        let near = if downwards { &item.above } else { &item.below };
        let sum: i64 = near.iter().map(|&n| items[n].x).sum();
        if near.is_empty() { item.x } else { sum / near.len() as i64 }
    };
    let mut wishes: Vec<(i64, usize)> = layer.iter().map(|&id| (wish(id), id)).collect();
    wishes.sort_by_key(|&(x, _)| x);
    let apart = |a: usize, b: usize| (items[a].width + items[b].width) / 2 + GAP_X;
    let mut leftmost = Vec::with_capacity(wishes.len());
    for (i, &(x, id)) in wishes.iter().enumerate() {
        let free = if i == 0 { x } else { leftmost[i - 1] + apart(wishes[i - 1].1, id) };
        leftmost.push(x.max(free));
    }
    let mut rightmost = vec![0; wishes.len()];
    for (i, &(x, id)) in wishes.iter().enumerate().rev() {
        let free = if i + 1 == wishes.len() { x } else { rightmost[i + 1] - apart(id, wishes[i + 1].1) };
        rightmost[i] = x.min(free);
    }
    // Both keep the distances, so their mean does.
    for (i, (_, id)) in wishes.into_iter().enumerate() {
        items[id].x = (leftmost[i] + rightmost[i]) / 2;
        layer[i] = id;
    }
}

/// Upper edge and height of every layer.
fn rows(sizes: &[(i64, i64)], items: &[Item], layers: usize) -> (Vec<i64>, Vec<i64>) {
    let mut heights = vec![0; layers];
    for (item, &(_, height)) in items.iter().zip(sizes) {
        heights[item.layer] = heights[item.layer].max(height);
    }
    let mut next = MARGIN;
    let tops = heights.iter().map(|height| {
        let top = next;
        next += height + GAP_Y;
        top
    });
    (tops.collect(), heights)
}

fn paths(sizes: &[(i64, i64)], items: &[Item], tops: &[i64], heights: &[i64]) -> Vec<String> {
    let mut paths = Vec::new();
    for (id, item) in items.iter().enumerate() {
        let height = sizes.get(id).map_or(heights[item.layer], |&(_, height)| height);
        let (x, top) = (item.x, tops[item.layer]);
        if id >= sizes.len() {
            paths.push(format!("M{x} {top}V{}", top + height));
        }
        for &below in &item.below {
            let (to_x, to_y, from_y) = (items[below].x, tops[items[below].layer], top + height);
            let middle = (from_y + to_y) / 2;
            paths.push(format!("M{x} {from_y}C{x} {middle} {to_x} {middle} {to_x} {to_y}"));
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_do_not_overlap_and_data_runs_down() {
        // A chain with a shortcut over all of it, and three sources of one box.
        let sizes = [(80, 40); 8];
        let edges = BTreeSet::from([(0, 1), (1, 2), (2, 3), (3, 7), (0, 7), (4, 3), (5, 3), (6, 3)]);
        let placed = layout(&sizes, &edges, 30);
        for (i, a) in placed.boxes.iter().enumerate() {
            assert!(a.0 >= 30 && a.1 >= 0 && a.0 + 80 <= placed.width && a.1 + 40 <= placed.height);
            for b in &placed.boxes[i + 1..] {
                assert!((a.0 - b.0).abs() >= 80 || (a.1 - b.1).abs() >= 40, "{:?}", placed.boxes);
            }
        }
        for &(from, to) in &edges {
            assert!(placed.boxes[from].1 < placed.boxes[to].1);
        }
        // Sources lie just above their reader.
        assert_eq!(placed.boxes[4].1, placed.boxes[2].1);
        // The shortcut has a line of its own in each of the three layers that it passes.
        assert_eq!(placed.edges.iter().filter(|path| path.contains('V')).count(), 3);
    }

    #[test]
    fn an_empty_graph_has_a_drawing() {
        let placed = layout(&[], &BTreeSet::new(), 0);
        assert!(placed.boxes.is_empty() && placed.edges.is_empty());
    }
}
