// Command tikv-double answers the protocol of PD and TiKV from the mock store of TiKV's Go client.
//
// It is a test double and not TiKV: it has no Raft, no RocksDB, no 1PC, no async commit and no
// durability. The tests use it for the protocol: regions, leaders, locks and lost answers. Its
// speed says nothing about TiKV.
//
//	tikv-double -stores 3 [-ca FILE -cert FILE -key FILE] [-log FILE]
//
// The variable TIKV_DOUBLE_LOG also names the file of -log.
//
// It prints "PD-ADDRESS CONTROL-ADDRESS" and runs until the end of its standard input. The control
// address accepts the commands in control.go as HTTP requests.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/testutils"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// maxMessage is the maximum size of a request in bytes.
const maxMessage = 64 << 20

func main() {
	stores := flag.Int("stores", 3, "number of stores")
	ca := flag.String("ca", "", "authority of the clients; turns TLS on")
	cert := flag.String("cert", "", "certificate of the servers")
	key := flag.String("key", "", "key of the servers")
	requests := flag.String("log", os.Getenv("TIKV_DOUBLE_LOG"), "file that gets each request and its answer")
	flag.Parse()
	// The mock store logs each conflict.
	log.SetOutput(io.Discard)
	security, err := serverTLS(*ca, *cert, *key)
	if err != nil {
		fail(err)
	}
	if err := run(*stores, security, *requests); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "tikv-double:", err)
	os.Exit(1)
}

// serverTLS returns nil without an authority.
func serverTLS(ca, cert, key string) (*tls.Config, error) {
	if ca == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate", ca)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientCAs:    clients,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}, nil
}

// requestLog returns nil without a file.
func requestLog(file string) (*log.Logger, error) {
	if file == "" {
		return nil, nil
	}
	out, err := os.Create(file)
	return log.New(out, "", log.Lmicroseconds), err
}

func run(stores int, security *tls.Config, requests string) error {
	client, cluster, _, err := testutils.NewMockTiKV("", nil)
	if err != nil {
		return err
	}
	double := newDouble(client, cluster, stores)
	if double.requests, err = requestLog(requests); err != nil {
		return err
	}
	for index := range double.storeIDs {
		if err := double.serveStore(index, security); err != nil {
			return err
		}
	}
	pd, err := listen()
	if err != nil {
		return err
	}
	scheme := "http"
	if security != nil {
		scheme = "https"
	}
	double.pdURL = scheme + "://" + pd.Addr().String()
	server := newServer(security, double.intercept(noStore))
	pdpb.RegisterPDServer(server, &pdService{double: double})
	go server.Serve(pd)
	control, err := listen()
	if err != nil {
		return err
	}
	go http.Serve(control, double.control())
	fmt.Println(pd.Addr(), control.Addr())
	if err := discardOutput(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// discardOutput sends the standard output to nowhere. The libraries log to it, and the caller reads
// only the first line: the signal of a closed pipe would end the program.
func discardOutput() error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return syscall.Dup3(int(null.Fd()), int(os.Stdout.Fd()), 0)
}

func listen() (net.Listener, error) {
	return net.Listen("tcp", "127.0.0.1:0")
}

func newServer(security *tls.Config, intercept grpc.UnaryServerInterceptor) *grpc.Server {
	options := []grpc.ServerOption{
		grpc.UnaryInterceptor(intercept),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(1 << 30),
	}
	if security != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(security)))
	}
	return grpc.NewServer(options...)
}

// serveStore starts the server of a store, and tells the cluster its address.
func (d *double) serveStore(index int, security *tls.Config) error {
	listener, err := listen()
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	d.cluster.UpdateStoreAddr(d.storeIDs[index], address)
	server := newServer(security, d.intercept(index))
	tikvpb.RegisterTikvServer(server, &tikvService{double: d, address: address})
	go server.Serve(listener)
	return nil
}

// method returns the last part of a gRPC method, such as KvGet.
func method(info *grpc.UnaryServerInfo) string {
	name := info.FullMethod
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[i+1:]
		}
	}
	return name
}
