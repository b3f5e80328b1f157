package openai

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// TLS reports whether the server speaks HTTPS.
func (a *Address) TLS() bool { return a.Certificate != "" || a.SelfSigned }

// pair returns the certificate of the server, with its key.
func (a *Address) pair() (tls.Certificate, error) {
	if a.SelfSigned {
		return selfSigned(a.Listen, time.Now())
	}
	pair, err := tls.LoadX509KeyPair(a.Certificate, a.Key)
	if err != nil {
		return pair, fmt.Errorf("tls_cert, tls_key: got %q, %q, want a certificate chain and its private key in PEM "+
			"format: %w", a.Certificate, a.Key, err)
	}
	return pair, nil
}

// certificateLife is how long a certificate is valid that the server makes itself.
const certificateLife = 365 * 24 * time.Hour

// selfSigned makes a certificate for the names by which this machine may be called.
func selfSigned(listen string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "dynosim"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if name, err := os.Hostname(); err == nil {
		c.DNSNames = append(c.DNSNames, name)
	}
	host, _, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); ip == nil {
		c.DNSNames = append(c.DNSNames, host)
	} else if !ip.IsUnspecified() {
		c.IPAddresses = append(c.IPAddresses, ip)
	}
	signed, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}, err
}
