package main

import (
	"context"
	"fmt"
	"log"
	"runtime"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/testutils"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// noStore is the index of PD, which is no store.
const noStore = -1

// electionTime passes between the stop of a store and the election of other leaders.
const electionTime = 300 * time.Millisecond

// double is the state of the cluster: the mock store, counters and planned faults.
type double struct {
	client   *testutils.MockClient
	cluster  *testutils.MockCluster
	storeIDs []uint64
	pdURL    string

	// topology is held by commands that change regions or leaders: the mock cluster lists its
	// regions without a lock.
	topology sync.Mutex

	mu      sync.Mutex
	counts  map[string]int
	stopped map[uint64]bool
	// refused and lost are the numbers of requests of a method that fail: refused ones are not
	// executed, lost ones are executed without an answer.
	refused map[string]int
	lost    map[string]int
	delay   time.Duration

	// physical and logical are the last timestamp.
	physical int64
	logical  int64
	// safePoint is the timestamp up to which old versions are removed.
	safePoint uint64

	// requests is the log of all executed requests, or nil.
	requests *log.Logger
}

func newDouble(client *testutils.MockClient, cluster *testutils.MockCluster, stores int) *double {
	ids, _, _, _ := testutils.BootstrapWithMultiStores(cluster, stores)
	return &double{
		client:   client,
		cluster:  cluster,
		storeIDs: ids,
		counts:   map[string]int{},
		stopped:  map[uint64]bool{},
		refused:  map[string]int{},
		lost:     map[string]int{},
	}
}

// fault is the planned fate of a request.
type fault struct {
	isRefused bool
	isLost    bool
	delay     time.Duration
}

// admit counts a request and returns its fate.
func (d *double) admit(store int, name string) fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts[name]++
	fate := fault{delay: d.delay}
	if store != noStore && d.stopped[d.storeIDs[store]] {
		fate.isRefused = true
	} else if d.refused[name] > 0 {
		d.refused[name]--
		fate.isRefused = true
	} else if d.lost[name] > 0 {
		d.lost[name]--
		fate.isLost = true
	}
	return fate
}

// intercept returns the interceptor of a store's requests, or of those of PD.
func (d *double) intercept(store int) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request interface{}, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer interface{}, err error) {
		// The mock store panics for requests that a stale region causes.
		defer func() {
			if cause := recover(); cause != nil {
				answer, err = nil, status.Error(codes.Unavailable, fmt.Sprint(cause))
			}
		}()
		fate := d.admit(store, method(info))
		pause(fate.delay)
		if fate.isRefused {
			return nil, status.Error(codes.Unavailable, "the double refuses the request")
		}
		answer, err = handle(ctx, request)
		d.log(method(info), request, answer, fate)
		if fate.isLost {
			return nil, status.Error(codes.Unavailable, "the double loses the answer")
		}
		return answer, err
	}
}

// log writes a request of a store and its answer to the log, if there is one.
func (d *double) log(method string, request, answer interface{}, fate fault) {
	if d.requests != nil {
		d.requests.Printf("%s lost=%t {%v} {%v}", method, fate.isLost, request, answer)
	}
}

// pause waits for a delay. The system's timers are too coarse for less than two milliseconds.
func pause(delay time.Duration) {
	if delay >= 2*time.Millisecond {
		time.Sleep(delay)
		return
	}
	for start := time.Now(); time.Since(start) < delay; {
		runtime.Gosched()
	}
}

// split splits the region of a key at the key. Leaders take turns on the stores.
func (d *double) split(key []byte) {
	// Split encodes the key, so the search needs the encoded form, too.
	encoded := encodeKey(key)
	region, _, _ := d.cluster.GetRegionByKey(encoded)
	if string(region.StartKey) == string(encoded) {
		return
	}
	peers := d.cluster.AllocIDs(len(region.Peers))
	id := d.cluster.AllocID()
	d.cluster.Split(region.Id, id, key, peers, peers[int(id/4)%len(peers)])
}

// electLeaders moves leaders away from stopped stores, or all leaders to the next store.
func (d *double) electLeaders(all bool) {
	d.topology.Lock()
	defer d.topology.Unlock()
	d.moveLeaders(all)
}

func (d *double) moveLeaders(all bool) {
	for _, region := range d.cluster.GetAllRegions() {
		meta, leader := d.cluster.GetRegion(region.Meta.Id)
		if meta == nil {
			continue
		}
		for at, peer := range meta.Peers {
			if peer.Id == leader && (all || d.isStopped(peer.StoreId)) {
				d.cluster.ChangeLeader(meta.Id, d.nextLeader(meta.Peers, at))
			}
		}
	}
}

func (d *double) nextLeader(peers []*metapb.Peer, at int) uint64 {
	for step := 1; step <= len(peers); step++ {
		peer := peers[(at+step)%len(peers)]
		if !d.isStopped(peer.StoreId) {
			return peer.Id
		}
	}
	return peers[at].Id
}

func (d *double) isStopped(store uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopped[store]
}

// setStopped stops or starts a store. The other stores elect leaders a little later.
func (d *double) setStopped(index int, stopped bool) {
	d.mu.Lock()
	d.stopped[d.storeIDs[index]] = stopped
	d.mu.Unlock()
	if stopped {
		time.AfterFunc(electionTime, func() { d.electLeaders(false) })
	}
}

// timestamps returns the last of count new timestamps.
func (d *double) timestamps(count int64) (physical, logical int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now().UnixMilli()
	if now > d.physical {
		d.physical, d.logical = now, 0
	}
	d.logical += count
	return d.physical, d.logical
}

// put stores a key without the protocol.
func (d *double) put(key, value []byte) error {
	start, err := d.lock(key, key, value)
	if err != nil {
		return err
	}
	return d.client.MvccStore.Commit([][]byte{key}, start, start+1)
}

// lock locks a key for a new transaction, and returns the start timestamp of it.
func (d *double) lock(key, primary, value []byte) (uint64, error) {
	// The next timestamp is the one of the commit.
	physical, logical := d.timestamps(2)
	start := oracle.ComposeTS(physical, logical) - 1
	write := &kvrpcpb.PrewriteRequest{
		Mutations:    []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: key, Value: value}},
		PrimaryLock:  primary,
		StartVersion: start,
		LockTtl:      1000,
	}
	for _, err := range d.client.MvccStore.Prewrite(write) {
		if err != nil {
			return start, err
		}
	}
	return start, nil
}

// encodeKey returns the form in which PD stores keys: groups of eight bytes, each with a byte that
// tells the length of its padding.
func encodeKey(key []byte) []byte {
	const group = 8
	var encoded []byte
	for at := 0; at <= len(key); at += group {
		part := key[at:]
		if len(part) > group {
			part = part[:group]
		}
		encoded = append(encoded, part...)
		for pad := len(part); pad < group; pad++ {
			encoded = append(encoded, 0)
		}
		encoded = append(encoded, byte(0xff-(group-len(part))))
	}
	return encoded
}
