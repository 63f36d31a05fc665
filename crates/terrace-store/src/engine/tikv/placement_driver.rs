//! Requests to a placement driver (PD): for regions, and for the safe point.
//!
//! The client library has no call that returns regions, and none that only moves the safe point. So
//! this module sends the requests itself, with the messages of the public protocol `pdpb` as far as
//! they are needed.

use std::error::Error as StdError;

use prost::Message;
use tikv_client::SecurityManager;
use tonic::client::Grpc;
use tonic::codec::ProstCodec;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;

use super::super::connection_error::messages;
use super::address::TlsFiles;
use super::key_codec::{decode_key, encode_key};
use super::regions::Region;

#[derive(Clone, PartialEq, Message)]
struct RequestHeader {
    #[prost(uint64, tag = "1")]
    cluster_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    cluster_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct GetMembersRequest {}

#[derive(Clone, PartialEq, Message)]
struct Member {
    #[prost(string, repeated, tag = "4")]
    client_urls: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct GetMembersResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(message, optional, tag = "3")]
    leader: Option<Member>,
}

#[derive(Clone, PartialEq, Message)]
struct GetRegionRequest {
    #[prost(message, optional, tag = "1")]
    header: Option<RequestHeader>,
    #[prost(bytes = "vec", tag = "2")]
    region_key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct RegionMeta {
    #[prost(bytes = "vec", tag = "2")]
    start_key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    end_key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct GetRegionResponse {
    #[prost(message, optional, tag = "2")]
    region: Option<RegionMeta>,
}

#[derive(Clone, PartialEq, Message)]
struct UpdateGcSafePointRequest {
    #[prost(message, optional, tag = "1")]
    header: Option<RequestHeader>,
    #[prost(uint64, tag = "2")]
    safe_point: u64,
}

#[derive(Clone, PartialEq, Message)]
struct UpdateGcSafePointResponse {
    #[prost(uint64, tag = "2")]
    new_safe_point: u64,
}

/// Placement drivers of a cluster, with a connection to their leader.
pub(super) struct PlacementDriver {
    hosts: Vec<String>,
    tls: Option<TlsFiles>,
    leader: Option<Leader>,
}

#[derive(Clone)]
struct Leader {
    channel: Channel,
    cluster_id: u64,
}

impl PlacementDriver {
    pub(super) fn new(hosts: Vec<String>, tls: Option<TlsFiles>) -> PlacementDriver {
        PlacementDriver { hosts, tls, leader: None }
    }

    /// Closes the connection, so that the next request finds the current leader.
    pub(super) fn disconnect(&mut self) {
        self.leader = None;
    }

    /// Returns the region that contains `key`, or with `is_end` the keys before `key`. None: no
    /// driver answers.
    pub(super) async fn region(&mut self, key: &[u8], is_end: bool) -> Option<Region> {
        let leader = self.connected().await?;
        let found = leader.get_region("/pdpb.PD/GetRegion", key).await?;
        if is_end && found.start == key {
            return leader.get_region("/pdpb.PD/GetPrevRegion", key).await;
        }
        Some(found)
    }

    /// Moves the safe point to `timestamp`, unless it is later. None: no driver answers.
    pub(super) async fn move_safe_point(&mut self, timestamp: u64) -> Option<()> {
        let leader = self.connected().await?;
        let header = Some(RequestHeader { cluster_id: leader.cluster_id });
        let request = UpdateGcSafePointRequest { header, safe_point: timestamp };
        let answer: UpdateGcSafePointResponse =
            call(leader.channel, "/pdpb.PD/UpdateGCSafePoint", request).await?;
        (answer.new_safe_point >= timestamp).then_some(())
    }

    async fn connected(&mut self) -> Option<Leader> {
        if self.leader.is_none() {
            self.leader = self.find_leader().await;
        }
        self.leader.clone()
    }

    /// Asks one driver after the other for the leader.
    async fn find_leader(&self) -> Option<Leader> {
        let security = self.security()?;
        for host in &self.hosts {
            let Ok(channel) = security.connect(host, |channel| channel).await else { continue };
            let members: Option<GetMembersResponse> =
                call(channel, "/pdpb.PD/GetMembers", GetMembersRequest {}).await;
            let Some(members) = members else { continue };
            let cluster_id = members.header.map_or(0, |header| header.cluster_id);
            for url in members.leader.unwrap_or_default().client_urls {
                if let Ok(channel) = security.connect(&url, |channel| channel).await {
                    return Some(Leader { channel, cluster_id });
                }
            }
        }
        None
    }

    /// Reason why a driver does not answer, with its host. None: all answer.
    pub(super) async fn failure(&self) -> Option<String> {
        let security = self.security()?;
        for host in &self.hosts {
            let failure = match security.connect(host, |channel| channel).await {
                Ok(channel) => {
                    answer::<_, GetMembersResponse>(channel, "/pdpb.PD/GetMembers", GetMembersRequest {})
                        .await
                        .err()
                }
                Err(tikv_client::Error::Grpc(error)) => Some(messages("", &error)),
                Err(error) => Some(error.to_string()),
            };
            if let Some(failure) = failure {
                return Some(format!("{host}: {failure}"));
            }
        }
        None
    }

    fn security(&self) -> Option<SecurityManager> {
        match &self.tls {
            Some(TlsFiles { ca, cert, key }) => SecurityManager::load(ca, cert, key).ok(),
            None => Some(SecurityManager::default()),
        }
    }
}

impl Leader {
    async fn get_region(&self, method: &'static str, key: &[u8]) -> Option<Region> {
        let header = Some(RequestHeader { cluster_id: self.cluster_id });
        let request = GetRegionRequest { header, region_key: encode_key(key) };
        let answer: GetRegionResponse = call(self.channel.clone(), method, request).await?;
        let RegionMeta { start_key, end_key } = answer.region?;
        Some(Region { start: decode_key(&start_key), end: decode_key(&end_key) })
    }
}

/// Sends a request and returns the answer. None: there is no answer.
async fn call<Q, A>(channel: Channel, method: &'static str, request: Q) -> Option<A>
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    answer(channel, method, request).await.ok()
}

/// Sends a request and returns the answer, or the reason why there is none.
async fn answer<Q, A>(channel: Channel, method: &'static str, request: Q) -> Result<A, String>
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(|error| messages("", &error))?;
    let codec = ProstCodec::<Q, A>::default();
    let answer = grpc.unary(tonic::Request::new(request), PathAndQuery::from_static(method), codec).await;
    answer.map(tonic::Response::into_inner).map_err(|status| match status.source() {
        Some(cause) => messages(status.message(), cause),
        None => status.message().to_owned(),
    })
}
