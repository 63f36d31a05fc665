//! Figures of the design note, on demand: `-- --ignored --nocapture speed`.

use std::thread;
use std::time::Instant;

use terrace_store::{KeyRange, Store, WriteBatch, WriteOptions};

use crate::cluster::{EtcdCluster, has_etcd, new_store};

fn report(what: &str, count: usize, work: impl FnOnce()) {
    let started = Instant::now();
    work();
    println!("{what}: {:.0} per second", count as f64 / started.elapsed().as_secs_f64());
}

fn in_threads(threads: usize, work: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}

fn scan(store: &dyn Store, is_forward: bool) {
    let mut iter = store.iter(&KeyRange::all()).unwrap();
    if is_forward {
        iter.seek_to_first()
    } else {
        iter.seek_to_last()
    }
    while iter.valid() {
        if is_forward { iter.next() } else { iter.prev() }
    }
    iter.status().unwrap();
}

#[test]
#[ignore = "it prints figures and asserts nothing"]
fn speed_of_one_and_three_servers() {
    if !has_etcd("speed of etcd") {
        return;
    }
    for servers in [1, 3] {
        let cluster = EtcdCluster::start(servers);
        let store = &*new_store(&cluster);
        println!("{servers} servers");
        report("puts, 1 thread", 1000, || {
            (0..1000).for_each(|n| store.put(format!("a{n}").as_bytes(), &[7; 100]).unwrap());
        });
        report("puts, 64 threads", 64 * 200, || {
            in_threads(64, |thread| {
                (0..200).for_each(|n| store.put(format!("{thread}-{n}").as_bytes(), &[7; 100]).unwrap());
            });
        });
        report("puts in batches of 100", 20_000, || {
            for from in (0..20_000).step_by(100) {
                let mut batch = WriteBatch::new();
                (from..from + 100).for_each(|n| {
                    batch.put(format!("b{n:06}"), [7; 100]);
                });
                store.write(&batch, &WriteOptions::default()).unwrap();
            }
        });
        report("gets, 1 thread", 1000, || {
            (0..1000).for_each(|n| drop(store.get(format!("a{n}").as_bytes()).unwrap()));
        });
        let entries = 1000 + 64 * 200 + 20_000;
        report("entries of a scan forward", entries, || scan(store, true));
        report("entries of a scan backward", entries, || scan(store, false));
    }
}
