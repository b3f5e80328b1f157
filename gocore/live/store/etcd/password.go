package etcd

import (
	"context"
	"errors"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// login logs a worker in by name and password. etcd answers with a token, which is sent with all later calls until etcd
// does not accept it any more: unused tokens expire, and a restart of etcd makes all of them invalid.
//
// The client of etcd can do that by its fields Username and Password, but it sends the old token along when it asks for
// a new one. If the old token has expired, etcd refuses the request, the client asks again at once, and so on for ever.
// It also asks for a token with every renewal of a lease, and each time etcd has to check the password, which is slow
// by design.
type login struct {
	name, password string

	renewing sync.Mutex // locked while a token is requested: one answer serves all calls that need it
	mu       sync.Mutex // guards token
	token    string
}

const authenticate = "/etcdserverpb.Auth/Authenticate"

func (l *login) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithPerRPCCredentials(l), grpc.WithChainUnaryInterceptor(l.call)}
}

func (l *login) current() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (l *login) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token := l.current()
	if info, _ := credentials.RequestInfoFromContext(ctx); info.Method == authenticate || token == "" {
		return nil, nil
	}
	return map[string]string{rpctypes.TokenFieldNameGRPC: token}, nil
}

// RequireTransportSecurity implements [credentials.PerRPCCredentials]. Whether connections are encrypted is for the
// user to decide.
func (l *login) RequireTransportSecurity() bool { return false }

// call makes a call, and repeats it with a new token as long as etcd does not accept the old one. On a slow machine a
// token may expire before it is used, so one repetition may not be enough; ctx bounds them.
func (l *login) call(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	for {
		used := l.current()
		err := invoke(ctx, method, request, reply, conn, options...)
		if method == authenticate || !refusedToken(err) {
			return err
		}
		if err := l.renew(ctx, conn, used); err != nil {
			return err
		}
	}
}

// renew asks for a token in place of used, unless that has happened meanwhile.
func (l *login) renew(ctx context.Context, conn *grpc.ClientConn, used string) error {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	if l.current() != used {
		return nil
	}
	request := &etcdserverpb.AuthenticateRequest{Name: l.name, Password: l.password}
	answer, err := etcdserverpb.NewAuthClient(conn).Authenticate(ctx, request, grpc.WaitForReady(true))
	err = clientv3.ContextError(ctx, err)
	if err != nil && !errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token = answer.GetToken() // "" without authentication
	return nil
}

// refusedToken reports whether etcd has refused a call because of its token, or because it had none.
func refusedToken(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) ||
		errors.Is(err, rpctypes.ErrUserEmpty)
}
