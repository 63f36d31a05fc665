package main

import (
	"context"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/tikvrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// requestTime is the maximum time of a request in the mock store.
const requestTime = 30 * time.Second

// tikvService answers the requests of clients to one store.
type tikvService struct {
	tikvpb.UnimplementedTikvServer
	double  *double
	address string
}

// forward sends a request to the mock store.
func forward[Answer any](ctx context.Context, s *tikvService, kind tikvrpc.CmdType, request interface{}, region *kvrpcpb.Context) (answer Answer, err error) {
	if region == nil {
		region = &kvrpcpb.Context{}
	}
	wrapped := tikvrpc.NewRequest(kind, request, *region)
	// Some handlers read the context of the request itself.
	if err := tikvrpc.SetContext(wrapped, nil, region.Peer); err != nil {
		return answer, err
	}
	response, err := s.double.client.SendRequest(ctx, s.address, wrapped, requestTime)
	if err != nil {
		return answer, status.Error(codes.Unavailable, err.Error())
	}
	answer, isRight := response.Resp.(Answer)
	if !isRight {
		return answer, status.Errorf(codes.Internal, "unexpected answer %T", response.Resp)
	}
	return answer, nil
}

// KvGet marks a missing key, which TiKV does and the mock store omits.
func (s *tikvService) KvGet(ctx context.Context, r *kvrpcpb.GetRequest) (*kvrpcpb.GetResponse, error) {
	answer, err := forward[*kvrpcpb.GetResponse](ctx, s, tikvrpc.CmdGet, r, r.Context)
	if err == nil && answer.Value == nil && answer.Error == nil && answer.RegionError == nil {
		answer.NotFound = true
	}
	return answer, err
}

func (s *tikvService) KvBatchGet(ctx context.Context, r *kvrpcpb.BatchGetRequest) (*kvrpcpb.BatchGetResponse, error) {
	return forward[*kvrpcpb.BatchGetResponse](ctx, s, tikvrpc.CmdBatchGet, r, r.Context)
}

func (s *tikvService) KvScan(ctx context.Context, r *kvrpcpb.ScanRequest) (*kvrpcpb.ScanResponse, error) {
	return forward[*kvrpcpb.ScanResponse](ctx, s, tikvrpc.CmdScan, r, r.Context)
}

func (s *tikvService) KvPrewrite(ctx context.Context, r *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	return forward[*kvrpcpb.PrewriteResponse](ctx, s, tikvrpc.CmdPrewrite, r, r.Context)
}

func (s *tikvService) KvCommit(ctx context.Context, r *kvrpcpb.CommitRequest) (*kvrpcpb.CommitResponse, error) {
	return forward[*kvrpcpb.CommitResponse](ctx, s, tikvrpc.CmdCommit, r, r.Context)
}

func (s *tikvService) KvBatchRollback(ctx context.Context, r *kvrpcpb.BatchRollbackRequest) (*kvrpcpb.BatchRollbackResponse, error) {
	return forward[*kvrpcpb.BatchRollbackResponse](ctx, s, tikvrpc.CmdBatchRollback, r, r.Context)
}

func (s *tikvService) KvTxnHeartBeat(ctx context.Context, r *kvrpcpb.TxnHeartBeatRequest) (*kvrpcpb.TxnHeartBeatResponse, error) {
	return forward[*kvrpcpb.TxnHeartBeatResponse](ctx, s, tikvrpc.CmdTxnHeartBeat, r, r.Context)
}

func (s *tikvService) KvScanLock(ctx context.Context, r *kvrpcpb.ScanLockRequest) (*kvrpcpb.ScanLockResponse, error) {
	return forward[*kvrpcpb.ScanLockResponse](ctx, s, tikvrpc.CmdScanLock, r, r.Context)
}

// KvResolveLock also resolves several transactions, which TiKV does and the mock store does not.
func (s *tikvService) KvResolveLock(ctx context.Context, r *kvrpcpb.ResolveLockRequest) (*kvrpcpb.ResolveLockResponse, error) {
	for _, transaction := range r.TxnInfos {
		one := &kvrpcpb.ResolveLockRequest{
			Context:       r.Context,
			StartVersion:  transaction.Txn,
			CommitVersion: transaction.Status,
		}
		answer, err := forward[*kvrpcpb.ResolveLockResponse](ctx, s, tikvrpc.CmdResolveLock, one, r.Context)
		if err != nil || answer.Error != nil || answer.RegionError != nil {
			return answer, err
		}
	}
	if len(r.TxnInfos) > 0 {
		return &kvrpcpb.ResolveLockResponse{}, nil
	}
	return forward[*kvrpcpb.ResolveLockResponse](ctx, s, tikvrpc.CmdResolveLock, r, r.Context)
}

// KvCheckTxnStatus adds the lock of a live transaction, which TiKV sends and the mock store omits.
func (s *tikvService) KvCheckTxnStatus(ctx context.Context, r *kvrpcpb.CheckTxnStatusRequest) (*kvrpcpb.CheckTxnStatusResponse, error) {
	answer, err := forward[*kvrpcpb.CheckTxnStatusResponse](ctx, s, tikvrpc.CmdCheckTxnStatus, r, r.Context)
	if err == nil && answer.LockTtl > 0 && answer.LockInfo == nil {
		answer.LockInfo = &kvrpcpb.LockInfo{
			PrimaryLock: r.PrimaryKey,
			Key:         r.PrimaryKey,
			LockVersion: r.LockTs,
			LockTtl:     answer.LockTtl,
		}
	}
	return answer, err
}
