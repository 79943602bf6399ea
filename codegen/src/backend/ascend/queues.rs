//! Queues that share buffers: a core has eight events of each kind, and every buffer in flight takes one.

use fusewright_templates::ascend as template;

/// Most buffers of one direction in flight: of the eight events, two are the vendor's own.
const MOST_BUFFERS: usize = 6;

/// Puts all tiles of a direction into one buffer where each in its own would take too many events.
pub(super) fn share(out: &mut template::Segment) {
    // Passes over a row are all there at once.
    let most = if out.passes { 2 } else { MOST_BUFFERS };
    let depth = out.depth as usize;
    if out.inputs.len() > 1 && (out.inputs.len() + out.moves.len()) * depth > most {
        share_inputs(out);
    }
    if out.outputs.len() > 1 && (out.outputs.len() + out.moves.len()) * depth > most {
        share_outputs(out);
    }
}

/// The buffer that holds all tiles, and the declarations of its parts.
fn joined(name: &str, queues: &[template::Queue]) -> (template::Queue, Vec<String>) {
    let mut bytes = 0;
    let mut parts = Vec::new();
    for queue in queues {
        let (tensor, element) = (&queue.tensor, queue.element);
        parts.push(format!("LocalTensor<{element}> {tensor} = {name}[{bytes}].ReinterpretCast<{element}>();"));
        bytes += queue.bytes;
    }
    (template::Queue { tensor: name.to_owned(), element: "uint8_t", bytes }, parts)
}

fn share_inputs(out: &mut template::Segment) {
    let name = "tileIn";
    let (queue, parts) = joined(name, &out.inputs);
    let own = |line: &String, call: &str| {
        out.inputs.iter().any(|q| line.contains(&format!("{}Queue.{call}", q.tensor)) && !line.starts_with(' '))
    };
    let mut lines: Vec<String> = out.copy_in.drain(..).collect();
    lines.retain(|line| !own(line, "AllocTensor") && !own(line, "EnQue"));
    let alloc = format!("LocalTensor<uint8_t> {name} = {name}Queue.AllocTensor<uint8_t>();");
    out.copy_in = [vec![alloc], parts.clone(), lines, vec![format!("{name}Queue.EnQue({name});")]].concat();
    out.body.splice(0..0, parts);
    out.inputs = vec![queue];
}

fn share_outputs(out: &mut template::Segment) {
    let name = "tileOut";
    let (queue, parts) = joined(name, &out.outputs);
    out.body.splice(0..0, parts.clone());
    let (own, others): (Vec<_>, Vec<_>) =
        out.stores.drain(..).partition(|s| out.outputs.iter().any(|q| q.tensor == s.tensor));
    let copies = own.into_iter().flat_map(|store| store.copies);
    let copies = parts.into_iter().chain(copies).collect();
    let shared = template::Store { tensor: name.to_owned(), element: "uint8_t", copies };
    out.stores = std::iter::once(shared).chain(others).collect();
    out.outputs = vec![queue];
}
