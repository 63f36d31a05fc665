package main

import (
	"context"
	"io"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const clusterID = 1

// pdService answers the requests of clients to PD.
type pdService struct {
	pdpb.UnimplementedPDServer
	double *double
}

func header() *pdpb.ResponseHeader {
	return &pdpb.ResponseHeader{ClusterId: clusterID}
}

func (s *pdService) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	member := &pdpb.Member{Name: "double", MemberId: 1, ClientUrls: []string{s.double.pdURL}}
	return &pdpb.GetMembersResponse{
		Header:     header(),
		Members:    []*pdpb.Member{member},
		Leader:     member,
		EtcdLeader: member,
	}, nil
}

func (s *pdService) Tso(stream pdpb.PD_TsoServer) error {
	for {
		request, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		pause(s.double.admit(noStore, "Tso").delay)
		physical, logical := s.double.timestamps(int64(request.Count))
		answer := &pdpb.TsoResponse{
			Header:    header(),
			Count:     request.Count,
			Timestamp: &pdpb.Timestamp{Physical: physical, Logical: logical},
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func (s *pdService) GetStore(_ context.Context, request *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	store := s.double.cluster.GetStore(request.StoreId)
	if store == nil {
		return nil, status.Error(codes.Unknown, "invalid store ID")
	}
	return &pdpb.GetStoreResponse{Header: header(), Store: store}, nil
}

func (s *pdService) GetAllStores(context.Context, *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	return &pdpb.GetAllStoresResponse{Header: header(), Stores: s.double.cluster.GetAllStores()}, nil
}

func region(meta *metapb.Region, leader *metapb.Peer) (*pdpb.GetRegionResponse, error) {
	return &pdpb.GetRegionResponse{Header: header(), Region: meta, Leader: leader}, nil
}

func (s *pdService) GetRegion(_ context.Context, request *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	meta, leader, _ := s.double.cluster.GetRegionByKey(request.RegionKey)
	return region(meta, leader)
}

func (s *pdService) GetPrevRegion(_ context.Context, request *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	meta, leader, _ := s.double.cluster.GetPrevRegionByKey(request.RegionKey)
	return region(meta, leader)
}

func (s *pdService) GetRegionByID(_ context.Context, request *pdpb.GetRegionByIDRequest) (*pdpb.GetRegionResponse, error) {
	meta, leader, _ := s.double.cluster.GetRegionByID(request.RegionId)
	return region(meta, leader)
}

func (s *pdService) GetGCSafePoint(context.Context, *pdpb.GetGCSafePointRequest) (*pdpb.GetGCSafePointResponse, error) {
	s.double.mu.Lock()
	defer s.double.mu.Unlock()
	return &pdpb.GetGCSafePointResponse{Header: header(), SafePoint: s.double.safePoint}, nil
}

// UpdateGCSafePoint also removes the old versions, which the stores of a real cluster do later.
func (s *pdService) UpdateGCSafePoint(_ context.Context, request *pdpb.UpdateGCSafePointRequest) (*pdpb.UpdateGCSafePointResponse, error) {
	s.double.mu.Lock()
	defer s.double.mu.Unlock()
	if request.SafePoint > s.double.safePoint {
		s.double.safePoint = request.SafePoint
		if err := s.double.client.MvccStore.GC(nil, nil, request.SafePoint); err != nil {
			return nil, err
		}
	}
	return &pdpb.UpdateGCSafePointResponse{Header: header(), NewSafePoint: s.double.safePoint}, nil
}
