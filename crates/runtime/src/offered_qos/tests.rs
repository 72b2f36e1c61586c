use super::*;

fn input(qos: &str) -> InputSpec {
    let config = format!(
        "rate_hz: 100
streams: {{w: {{type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50, qos: {qos}}}}}
"
    );
    robocache_core::config::parse(&config, "test.yaml").unwrap().inputs.remove(0)
}

const fn offer(reliable: bool, transient_local: bool) -> OfferedQos {
    OfferedQos { reliable, transient_local }
}

fn publisher(offers: OfferedQos) -> PublisherSeen {
    let ros_type = "geometry_msgs/msg/WrenchStamped".into();
    PublisherSeen { node: Some("/driver".into()), ros_type, offers }
}

#[test]
fn auto_asks_for_what_all_publishers_offer() {
    let spec = input("{}");
    let of = |offers: &[OfferedQos]| {
        OfferedQos::of(&spec, &offers.iter().copied().map(publisher).collect::<Vec<_>>())
    };
    assert_eq!(of(&[]), offer(false, false), "fits every publisher");
    for (reliable, local) in [(false, false), (false, true), (true, false), (true, true)] {
        assert_eq!(of(&[offer(reliable, local)]), offer(reliable, local));
        let mixed = of(&[offer(reliable, local), offer(!reliable, !local)]);
        assert_eq!(mixed, offer(false, false));
    }
    assert_eq!(of(&[offer(true, true), offer(true, false)]), offer(true, false));
    assert_eq!(of(&[offer(true, true), offer(false, true)]), offer(false, true));
    // One of another type changes nothing.
    let other = PublisherSeen { ros_type: "a/msg/B".into(), ..publisher(offer(false, false)) };
    let both = [other.clone(), publisher(offer(true, true))];
    assert_eq!(OfferedQos::of(&spec, &both), offer(true, true));
    assert_eq!(OfferedQos::of(&spec, &[other]), OfferedQos::at_first(&spec));
}

#[test]
fn an_input_whose_publishers_have_ended_asks_for_the_same() {
    let spec = input("{}");
    let asked = OfferedQos::at_first(&spec).next(&spec, &[publisher(offer(true, true))]);
    assert_eq!(asked, offer(true, true));
    let other = PublisherSeen { ros_type: "a/msg/B".into(), ..publisher(offer(false, false)) };
    assert_eq!([asked.next(&spec, &[]), asked.next(&spec, &[other])], [asked; 2]);
    assert_eq!(asked.next(&spec, &[publisher(offer(false, true))]), offer(false, true));
}

#[test]
fn what_the_configuration_says_is_obeyed() {
    let least = [publisher(offer(false, false))];
    let most = [publisher(offer(true, true))];
    let of = |qos: &str| [&least, &most].map(|p| OfferedQos::of(&input(qos), p));
    let both = |request| [request; 2];
    assert_eq!(of("{reliability: reliable, durability: volatile}"), both(offer(true, false)));
    let asked = of("{reliability: best_effort, durability: transient_local}");
    assert_eq!(asked, both(offer(false, true)));
    assert_eq!(of("{reliability: reliable}"), [offer(true, false), offer(true, true)]);
}

#[test]
fn an_offer_fits_if_it_is_not_less() {
    let all = [(false, false), (false, true), (true, false), (true, true)];
    for (asked, offered) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
        let expected = (asked.0 <= offered.0) && (asked.1 <= offered.1);
        assert_eq!(offer(asked.0, asked.1).fits(offer(offered.0, offered.1)), expected);
    }
    for (reliable, local) in all {
        let shared = SharedQos::new(offer(!reliable, !local));
        shared.set(offer(reliable, local));
        assert_eq!(shared.get(), offer(reliable, local));
    }
    assert_eq!(offer(true, false).to_string(), "reliable, volatile");
    assert_eq!(offer(false, true).to_string(), "best_effort, transient_local");
}
