//! The files that TLS needs, as one reads them for each connection: certificates and keys get renewed on disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::EtcdOptions;

/// Where they are.
#[derive(Clone, Debug)]
pub(super) struct Files {
    ca: Option<PathBuf>,
    /// Certificate and key.
    client: Option<(PathBuf, PathBuf)>,
}

pub(super) fn unreadable(file: &Path, error: &io::Error) -> String {
    format!("file \"{}\" cannot be read: {error}", file.display())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = std::fs::read(file).map_err(|error| unreadable(file, &error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("file \"{}\" holds no certificate in PEM", file.display())),
        Err(error) => Err(format!("file \"{}\" is not PEM: {error}", file.display())),
    }
}

impl Files {
    pub(super) fn of(options: &EtcdOptions) -> Result<Files, String> {
        let client = match (&options.cert_file, &options.key_file) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => {
                return Err(
                    "id_gen.registry_cert_file is set, but not id_gen.registry_key_file".to_owned()
                );
            }
            (None, Some(_)) => {
                return Err(
                    "id_gen.registry_key_file is set, but not id_gen.registry_cert_file".to_owned()
                );
            }
        };
        if options.ca_file.is_none() && options.endpoints.iter().any(|endpoint| endpoint.tls) {
            return Err(
                "etcds:// needs id_gen.registry_ca_file, the certificate of the servers' authority"
                    .to_owned(),
            );
        }
        Ok(Files { ca: options.ca_file.clone(), client })
    }

    /// Reads them: whom to believe, and who we are.
    pub(super) fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore::empty();
        if let Some(file) = &self.ca {
            for authority in certificates(file)? {
                let wrong = |error| {
                    format!(
                        "file \"{}\" does not hold a certificate authority: {error}",
                        file.display()
                    )
                };
                roots.add(authority).map_err(wrong)?;
            }
        }
        // Named here, as the crate's default would be one for the whole process.
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let Some((certificate_file, key_file)) = &self.client else {
            return Ok(Arc::new(builder.with_no_client_auth()));
        };
        let chain = certificates(certificate_file)?;
        let key = std::fs::read(key_file).map_err(|error| unreadable(key_file, &error))?;
        let (certificate_name, key_name) = (certificate_file.display(), key_file.display());
        let key = PrivateKeyDer::from_pem_slice(&key)
            .map_err(|_| format!("file \"{key_name}\" holds no private key in PEM"))?;
        let config = builder.with_client_auth_cert(chain, key).map_err(|error| {
            format!("files \"{certificate_name}\" and \"{key_name}\" cannot be used: {error}")
        })?;
        Ok(Arc::new(config))
    }
}
