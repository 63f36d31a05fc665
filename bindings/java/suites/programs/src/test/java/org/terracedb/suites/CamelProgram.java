package org.terracedb.suites;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import org.apache.camel.Exchange;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.leveldb.LevelDBAggregationRepository;
import org.apache.camel.impl.DefaultCamelContext;

/** Collects the orders of customers in Camel's repository until ten of a customer are there. */
public final class CamelProgram {
    private static final int ORDERS_OF_A_TURN = 40;
    private static final int CUSTOMERS = 7;
    private static final int ORDERS_OF_A_PARCEL = 10;

    private CamelProgram() {}

    public static void main(String[] arguments) throws Exception {
        int turn = Integer.parseInt(arguments[1]);
        Library.check(Boolean.parseBoolean(arguments[2]));
        LevelDBAggregationRepository repository =
                new LevelDBAggregationRepository("orders", arguments[0]);
        List<String> parcels = Collections.synchronizedList(new ArrayList<>());
        try (DefaultCamelContext context = new DefaultCamelContext()) {
            context.addRoutes(route(repository, parcels));
            context.start();
            ProducerTemplate template = context.createProducerTemplate();
            for (int i = turn * ORDERS_OF_A_TURN; i < (turn + 1) * ORDERS_OF_A_TURN; i++) {
                template.sendBodyAndHeader("direct:orders", "order " + i, "customer", i % CUSTOMERS);
            }
            waitForConfirmations(repository, context);
            System.out.println("turn " + turn + ", complete: " + new TreeSet<>(parcels));
            for (String customer : new TreeSet<>(repository.getKeys())) {
                Exchange waiting = repository.get(context, customer);
                System.out.println(customer + " waits with " + waiting.getIn().getBody());
            }
        }
    }

    /** Camel confirms a parcel after the end of its route, which may be in another thread. */
    private static void waitForConfirmations(
            LevelDBAggregationRepository repository, DefaultCamelContext context) throws Exception {
        for (int turn = 0; !repository.scan(context).isEmpty(); turn++) {
            if (turn == 6000) {
                throw new IllegalStateException("not confirmed: " + repository.scan(context));
            }
            Thread.sleep(10);
        }
    }

    private static RouteBuilder route(
            LevelDBAggregationRepository repository, List<String> parcels) {
        return new RouteBuilder() {
            @Override
            public void configure() {
                from("direct:orders")
                        .aggregate(header("customer"), CamelProgram::join)
                        .completionSize(ORDERS_OF_A_PARCEL)
                        .aggregationRepository(repository)
                        .process(exchange -> parcels.add(exchange.getIn().getBody(String.class)));
            }
        };
    }

    private static Exchange join(Exchange parcel, Exchange order) {
        if (parcel == null) {
            return order;
        }
        String bodies = parcel.getIn().getBody(String.class) + ", " + order.getIn().getBody();
        parcel.getIn().setBody(bodies);
        return parcel;
    }
}
