//! Number of requests that the client library has sent.
//!
//! The library counts them for the whole process, in the registry of the crate `prometheus`.

use prometheus::proto::MetricFamily;

use crate::store::RequestCount;

/// Returns the number of requests of this process so far.
pub(super) fn read() -> RequestCount {
    let mut count = RequestCount::default();
    for family in prometheus::gather() {
        match family.get_name() {
            "tikv_request_total" => count.requests = sum(&family, |_| true),
            "pd_request_total" => count.timestamps = sum(&family, |method| method == "get_timestamp"),
            _ => {}
        }
    }
    count
}

/// Sum of the counters of the methods that `includes`.
fn sum(family: &MetricFamily, includes: impl Fn(&str) -> bool) -> u64 {
    let counters = family.get_metric().iter();
    let included =
        counters.filter(|metric| metric.get_label().iter().any(|label| includes(label.get_value())));
    included.map(|metric| metric.get_counter().get_value() as u64).sum()
}
