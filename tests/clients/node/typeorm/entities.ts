import { Column, Entity, JoinColumn, ManyToOne, PrimaryColumn } from "typeorm";

@Entity()
export class Customer {
    @PrimaryColumn({ type: "bigint", default: () => "snowflake_next()" })
    id!: string;

    @Column({ type: "text" })
    name!: string;
}

@Entity()
export class Purchase {
    @PrimaryColumn({ type: "uuid", default: () => "uuidv7()" })
    id!: string;

    @ManyToOne(() => Customer, { nullable: false })
    @JoinColumn({ name: "customer_id", foreignKeyConstraintName: "purchase_customer_id_fkey" })
    customer!: Customer;
}
