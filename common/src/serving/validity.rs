//! Until when a certificate is valid (RFC 5280, section 4.1.2.5): the one field that somebody is paged for.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The tags of DER that there are on the way.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// `notAfter`, in seconds since 1970. `None`: this is no certificate that can be read.
pub(super) fn not_after(der: &[u8]) -> Option<i64> {
    let (certificate, _) = value(der, SEQUENCE)?;
    let (mut body, _) = value(certificate, SEQUENCE)?;
    if body.first() == Some(&VERSION) {
        body = any(body)?.2;
    }
    // serialNumber, signature, issuer.
    for _ in 0..3 {
        body = any(body)?.2;
    }
    let (validity, _) = value(body, SEQUENCE)?;
    let (_, _, rest) = any(validity)?;
    let (tag, text, _) = any(rest)?;
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        // RFC 5280: years from 50 on are of the last century.
        UTC_TIME if text.get(..2)? >= "50" => format!("19{text}"),
        UTC_TIME => format!("20{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    let time = time.to_zoned(TimeZone::UTC).ok()?;
    Some(time.timestamp().as_second())
}

/// The value of the first element if it has this tag, and what follows it.
fn value(der: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    let (tag, value, rest) = any(der)?;
    (tag == expected).then_some((value, rest))
}

/// Tag and value of the first element, and what follows it.
fn any(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(*short), rest),
        long => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            let length = bytes.iter().try_fold(0usize, |length, byte| {
                length.checked_mul(256)?.checked_add(usize::from(*byte))
            })?;
            (length, rest)
        }
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((*tag, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(year: i32) -> Option<i64> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(["web".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(year, 3, 1);
        let certificate = parameters.self_signed(&key).unwrap();
        not_after(certificate.der())
    }

    #[test]
    fn reads_both_forms_of_time() {
        // From 2050 on, GeneralizedTime.
        assert_eq!(ends(2027), Some(1_803_859_200));
        assert_eq!(ends(2060), Some(2_845_324_800));
    }

    #[test]
    fn rejects_what_is_cut_off_or_no_certificate() {
        let key = rcgen::generate_simple_self_signed(["web".to_owned()]).unwrap();
        let der = key.cert.der();
        assert!(not_after(der).is_some());
        for end in 0..der.len().min(120) {
            assert_eq!(not_after(der.get(..end).unwrap()), None, "{end}");
        }
        assert_eq!(not_after(&[0x30, 0xff, 0xff]), None);
    }
}
