use fusewright_fusion::*;
use fusewright_graph::{import, text};
fn main() {
    let verbose = std::env::args().nth(2).is_some();
    for path in std::env::args().nth(1).unwrap_or_default().split(',') {
        let bytes = std::fs::read(path).unwrap();
        let name = path.rsplit('/').next().unwrap().to_string();
        let graph = match import::pt2(&bytes.into()) {
            Ok(g) => g,
            Err(e) => {
                println!("{name}\tIMPORT {e:?}");
                continue;
            }
        };
        let t = std::time::Instant::now();
        let (graph, reports) = match PassManager::default().run(&graph, &mut Cx::default(), &mut [&mut pass::Verify]) {
            Ok(g) => g,
            Err(e) => {
                println!("{name}\tPASS {e}");
                continue;
            }
        };
        let mut p = partition(&graph, &Limits::default());
        patterns::name_regions(&graph, &mut p);
        let e = explain(&graph, &p, &reports).unwrap();
        println!("{name}\t{}\t{:?}\t{:?}", p.regions.len(), e.patterns, t.elapsed());
        if verbose {
            println!("{}", text::print_graph(&graph, text::PrintOptions { types: true, hide_origins: true }));
            println!("{reports:?}");
            for r in &e.regions {
                println!(
                    "  {} rows {} fused {} unfused {} {}\n    {}",
                    r.name,
                    r.rows,
                    r.bytes_fused,
                    r.bytes_unfused,
                    r.key.short(),
                    r.ops.join(" ")
                );
                for x in &r.ends {
                    println!("      end {} {} {}", x.op, x.origin, x.code);
                }
            }
            for x in &e.refused {
                println!("  refused {} {} {}", x.op, x.origin, x.code);
            }
            for r in &p.regions {
                println!("{}", text::print_graph(&r.body, text::PrintOptions { types: true, hide_origins: true }));
            }
        }
    }
}
