//! Which part of a file is sent, if any: conditional requests and ranges (RFC 9110 sections 13 and 14), as Apache's
//! `ap_meets_conditions` and byterange filter.

use std::sync::Arc;

use manifold_http::{Selection, Status, Validators, Verdict, select_ranges, write_unsatisfied_range};

use crate::request::{Body, Request};
use crate::respond;
use crate::site::Site;

/// Looks at the fields that make a request conditional or partial; the answer, which is a success so far, may become 206,
/// 304, 412 or 416.
#[inline]
pub fn select(request: &mut Request, site: &Site) {
    if let Body::Resource(_) = request.response.body
        && request.response.status == Status::OK
        && request.head.is_conditional()
    {
        select_part(request, site);
    }
}

#[cold]
fn select_part(request: &mut Request, site: &Site) {
    let Body::Resource(resource) = &request.response.body else { return };
    let Some(conditions) = request.head.conditions(&request.bytes) else { return };
    let resource = Arc::clone(resource);
    let validators = Validators {
        entity_tag: resource.etag(),
        last_modified: resource.modified(),
        now: request.turn.wall.as_secs(),
    };
    let verdict = conditions.evaluate(request.method(), &validators);
    let response = &mut request.response;
    match verdict {
        Verdict::NotModified => (response.status, response.body) = (Status::NOT_MODIFIED, Body::Fields(resource)),
        Verdict::PreconditionFailed => {
            (response.status, response.body) = (Status::PRECONDITION_FAILED, Body::Fields(resource));
        }
        Verdict::Proceed { ranges: false } => {}
        Verdict::Proceed { ranges: true } => {
            let value = conditions.range.as_deref().unwrap_or_default();
            let body = match select_ranges(value, resource.size, &site.ranges, &mut request.ranges) {
                Selection::Whole => return,
                Selection::One(range) => Body::Part(resource, range),
                Selection::Several => Body::Parts(resource),
                Selection::Unsatisfiable => return unsatisfiable(request, resource.size, site),
            };
            (request.response.status, request.response.body) = (Status::PARTIAL_CONTENT, body);
        }
    }
}

fn unsatisfiable(request: &mut Request, size: u64, site: &Site) {
    respond::fill_in(request, Status::RANGE_NOT_SATISFIABLE, site);
    let fields = &mut request.response.fields;
    fields.extend_from_slice(b"Content-Range: ");
    write_unsatisfied_range(fields, size);
    fields.extend_from_slice(b"\r\n");
}
