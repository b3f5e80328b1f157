package openai

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestSelfSigned: clients that trust the certificate find the server by its names; others do not trust it.
func TestSelfSigned(t *testing.T) {
	l, err := serverOf(t, fast, nil).Listen(Address{Listen: "127.0.0.1:0", SelfSigned: true, MaxConnections: 10})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	defer l.Close(ctx)
	url := "https://" + l.Addr().String() + "/health"
	if _, err := http.Get(url); err == nil {
		t.Error("a certificate that nobody vouches for is trusted")
	}
	//nolint:gosec // to see the certificate
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	certificate := conn.ConnectionState().PeerCertificates[0]
	_ = conn.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(certificate)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted},
		DisableKeepAlives: true}}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost"} {
		response, err := client.Get("https://" + net.JoinHostPort(host, port) + "/health")
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: got %v %v", host, response, err)
		}
		_ = response.Body.Close()
	}
	if left := time.Until(certificate.NotAfter); left < 300*24*time.Hour {
		t.Errorf("it is valid for %v", left)
	}
}
